#include "comm/local_rendezvous.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "src/base/check.h"

namespace kinet {
namespace {

using Lock = std::unique_lock<std::mutex>;

bool wait_for(std::condition_variable& changed, Lock& lock, double seconds,
              const std::function<bool()>& done) {
  return changed.wait_for(lock, std::chrono::duration<double>(seconds), done);
}

}  // namespace

void LocalStore::tell_all(const News& news) {
  for (Listener* listener : listeners_) {
    listener->news.push_back(news);
    eventfd_write(listener->event_fd, 1);
  }
  changed_.notify_all();
}

LocalRendezvous::LocalRendezvous(std::shared_ptr<LocalStore> store) : store_(std::move(store)) {
  listener_.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

LocalRendezvous::~LocalRendezvous() {
  {
    const Lock lock(store_->mutex_);
    if (joined_) declare_lost(listener_.rank, listener_.incarnation, "its thread ended");
    std::erase(store_->listeners_, &listener_);
  }
  close(listener_.event_fd);
}

// Takes the asked-for rank, or the first that nobody has; a lost rank is free again.
void LocalRendezvous::place(const JoinRequest& request) {
  auto& requests = store_->requests_;
  Rank rank = request.rank;
  if (rank < 0) {
    const auto free = std::find(requests.begin(), requests.end(), std::nullopt);
    KINET_CHECK(free != requests.end(), "all {} ranks of the run are taken", store_->size_);
    rank = static_cast<Rank>(free - requests.begin());
  }
  KINET_CHECK(rank < store_->size_, "rank {} of a run of {} ranks", rank, store_->size_);
  KINET_CHECK(!requests[rank], "rank {} is there twice", rank);
  requests[rank] = request;
  listener_.rank = rank;
  listener_.incarnation = store_->incarnations_[rank];
}

World LocalRendezvous::join(const JoinRequest& request, double timeout) {
  Lock lock(store_->mutex_);
  KINET_CHECK(request.size == store_->size_, "size: this rank was told {}, the run has {}",
              request.size, store_->size_);
  place(request);
  const bool successor = listener_.incarnation > 0;
  if (successor) {
    LocalStore::News news;
    news.rank = listener_.rank;
    news.member = {request.node, request.host, request.process, listener_.incarnation};
    store_->tell_all(news);
  }
  store_->listeners_.push_back(&listener_);
  store_->changed_.notify_all();
  const auto all_there = [&] {
    return std::none_of(store_->requests_.begin(), store_->requests_.end(),
                        [](const auto& r) { return !r.has_value(); });
  };
  if (!wait_for(store_->changed_, lock, timeout, all_there)) {
    std::string missing;
    for (int r = 0; r < store_->size_; ++r) {
      if (!store_->requests_[r]) missing += fmt::format(" {}", r);
    }
    fail_runtime("ranks that did not come within {:.3g} s:{}", timeout, missing);
  }
  std::vector<JoinRequest> requests;
  for (const auto& r : store_->requests_) requests.push_back(*r);
  const std::string difference = first_difference(requests);
  KINET_CHECK(difference.empty(), "the ranks differ: {}", difference);
  joined_ = true;
  return world_now();
}

World LocalRendezvous::world_now() const {
  World world;
  world.rank = listener_.rank;
  world.size = store_->size_;
  world.token = store_->token_;
  for (int r = 0; r < store_->size_; ++r) {
    const auto& request = store_->requests_[r];
    world.members.push_back(
        {request->node, request->host, request->process, store_->incarnations_[r]});
  }
  return world;
}

void LocalRendezvous::set(const std::string& key, const std::string& value) {
  const Lock lock(store_->mutex_);
  store_->values_[key] = value;
  store_->changed_.notify_all();
}

std::string LocalRendezvous::get(const std::string& key, double timeout) {
  Lock lock(store_->mutex_);
  if (!wait_for(store_->changed_, lock, timeout, [&] { return store_->values_.contains(key); })) {
    fail_runtime("nobody set '{}' within {:.3g} s", key, timeout);
  }
  return store_->values_[key];
}

void LocalRendezvous::report_lost(Rank rank, uint32_t incarnation, const std::string& why) {
  const Lock lock(store_->mutex_);
  declare_lost(rank, incarnation, why);
}

// The first report counts; of an incarnation that is already gone there is nothing to tell.
void LocalRendezvous::declare_lost(Rank rank, uint32_t incarnation, const std::string& why) {
  if (store_->incarnations_[rank] != incarnation) return;
  LocalStore::News news;
  news.rank = rank;
  news.lost = true;
  news.member.incarnation = incarnation;
  news.why = why;
  ++store_->incarnations_[rank];
  store_->requests_[rank].reset();
  store_->tell_all(news);
}

void LocalRendezvous::leave() { joined_ = false; }

int LocalRendezvous::poll(MembershipSink& sink) {
  std::deque<LocalStore::News> news;
  {
    const Lock lock(store_->mutex_);
    news.swap(listener_.news);
    eventfd_t ignored = 0;
    eventfd_read(listener_.event_fd, &ignored);
  }
  for (const auto& n : news) {
    if (n.lost) {
      sink.on_member_lost(n.rank, n.member.incarnation, n.why);
    } else {
      sink.on_member_joined(n.rank, n.member);
    }
  }
  return static_cast<int>(news.size());
}

}  // namespace kinet
