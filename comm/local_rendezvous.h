// Rendezvous of ranks that are threads of one process: a shared map under a lock. For tests,
// benches and examples; also the plainest description of what a rendezvous does.
// Thread safety: LocalStore is shared by all ranks; a LocalRendezvous belongs to one.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/rendezvous.h"

namespace kinet {

// What the ranks share. Made once, handed to every LocalRendezvous.
class LocalStore {
 public:
  explicit LocalStore(int size) : size_(size), requests_(size), incarnations_(size, 0) {}
  const std::string& token() const { return token_; }

 private:
  friend class LocalRendezvous;
  struct News {
    Rank rank = 0;
    bool lost = false;
    Member member;
    std::string why;
  };
  struct Listener {
    Rank rank = 0;
    uint32_t incarnation = 0;
    int event_fd = -1;
    std::deque<News> news;
  };

  void tell_all(const News& news);

  std::mutex mutex_;
  std::condition_variable changed_;
  const int size_;
  const std::string token_ = random_token();
  std::map<std::string, std::string> values_;
  std::vector<std::optional<JoinRequest>> requests_;
  std::vector<uint32_t> incarnations_;  // the current one of each rank
  std::vector<Listener*> listeners_;
};

class LocalRendezvous : public Rendezvous {
 public:
  explicit LocalRendezvous(std::shared_ptr<LocalStore> store);
  ~LocalRendezvous() override;  // without leave() before: a loss, as when a process dies

  World join(const JoinRequest& request, double timeout) override;
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, double timeout) override;
  void report_lost(Rank rank, uint32_t incarnation, const std::string& why) override;
  void leave() override;
  int poll(MembershipSink& sink) override;
  int event_fd() const override { return listener_.event_fd; }

 private:
  World world_now() const;  // the lock is held
  void place(const JoinRequest& request);
  void declare_lost(Rank rank, uint32_t incarnation, const std::string& why);

  std::shared_ptr<LocalStore> store_;
  LocalStore::Listener listener_;
  bool joined_ = false;
};

}  // namespace kinet
