// Rendezvous of ranks that are threads of one process: a shared map under a lock. For tests,
// benches and examples; also the plainest description of what a rendezvous does.
// Thread safety: LocalStore is shared by all ranks; a LocalRendezvous belongs to one.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/rendezvous.h"
#include "src/base/check.h"

namespace kinet {

// What the ranks share. Made once, handed to every LocalRendezvous.
class LocalStore {
 public:
  explicit LocalStore(int size)
      : size_(size), requests_(size), incarnations_(size, 0), left_(size, false) {}
  const std::string& token() const { return token_; }
  int size() const { return size_; }

 private:
  friend class LocalRendezvous;
  struct News {
    Rank rank = 0;
    bool lost = false;
    Member member;
    std::string why;
  };
  struct Listener {
    Rank rank = -1;
    uint32_t incarnation = 0;
    int event_fd = -1;
    std::vector<News> news;
    std::optional<World> world;  // once all were there
  };

  void tell_all(const News& news);
  // Until the run has begun, what goes wrong goes wrong for all ranks.
  [[noreturn]] void fail_join(Error::Kind kind, const std::string& text);

  std::mutex mutex_;
  std::condition_variable changed_;
  const int size_;
  const std::string token_ = random_token();
  std::map<std::string, std::string> values_;
  std::vector<std::optional<JoinRequest>> requests_;
  std::vector<uint32_t> incarnations_;  // the current one of each rank
  std::vector<bool> left_;              // by rank: its end is no loss
  bool running_ = false;                // all ranks have been there together
  std::optional<Error> failure_;        // of the run that did not begin
  std::vector<Listener*> waiting_;      // for their World
  std::vector<Listener*> listeners_;    // have it, and hear the news
};

class LocalRendezvous : public Rendezvous {
 public:
  explicit LocalRendezvous(std::shared_ptr<LocalStore> store);
  ~LocalRendezvous() override;  // without leave() before: a loss, as when a process dies

  World join(const JoinRequest& request, double timeout) override;
  void set(const std::string& key, const std::string& value) override;
  using Rendezvous::get;
  std::string get(const std::string& key, double timeout, Rank owner) override;
  void report_lost(Rank rank, uint32_t incarnation, const std::string& why) override;
  void leave() override;
  int poll(MembershipSink& sink) override;
  int event_fd() const override { return listener_.event_fd; }

 private:
  World world_now() const;  // the lock is held, here and below
  void check(const JoinRequest& request);
  void complete();
  std::string difference_of(const JoinRequest& candidate) const;
  std::string missing_text() const;
  bool is_current() const;
  void place(const JoinRequest& request);
  void declare_lost(Rank rank, uint32_t incarnation, const std::string& why);

  std::shared_ptr<LocalStore> store_;
  LocalStore::Listener listener_;
  bool joined_ = false;
};

}  // namespace kinet
