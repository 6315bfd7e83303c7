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

void LocalStore::fail_join(Error::Kind kind, const std::string& text) {
  const Error error(text, kind);
  if (!running_) {
    failure_ = error;
    changed_.notify_all();
  }
  throw Error(error);
}

void LocalRendezvous::check(const JoinRequest& request) {
  std::string problem;
  if (request.size != store_->size_) {
    problem = fmt::format("size: a rank was told that there are {} ranks, the run has {}",
                          request.size, store_->size_);
  } else if (request.rank >= store_->size_) {
    problem = fmt::format("rank {} of a run of {} ranks", request.rank, store_->size_);
  } else if (store_->requests_[request.rank]) {
    problem = fmt::format("rank {} is there twice", request.rank);
  } else if (store_->running_) {
    const std::string difference = difference_of(request);
    if (!difference.empty()) problem = "the ranks differ: " + difference;
  }
  if (!problem.empty()) store_->fail_join(Error::Kind::kUser, problem);
}

// Ranks that are not there count as being like the candidate.
std::string LocalRendezvous::difference_of(const JoinRequest& candidate) const {
  std::vector<JoinRequest> requests;
  for (const auto& r : store_->requests_) requests.push_back(r.value_or(candidate));
  return first_difference(requests);
}

// A lost rank is free again, for a successor.
void LocalRendezvous::place(const JoinRequest& request) {
  store_->requests_[request.rank] = request;
  store_->left_[request.rank] = false;
  listener_.rank = request.rank;
  listener_.incarnation = store_->incarnations_[request.rank];
  if (store_->running_) {
    LocalStore::News news;
    news.rank = listener_.rank;
    news.member = {request.node, request.host, request.process, listener_.incarnation};
    store_->tell_all(news);
  }
  store_->changed_.notify_all();
}

World LocalRendezvous::join(const JoinRequest& given, double timeout) {
  Lock lock(store_->mutex_);
  if (store_->failure_) throw Error(*store_->failure_);
  JoinRequest request = given;
  const auto& requests = store_->requests_;
  if (request.rank < 0) {  // the first that is free
    const auto free = std::find(requests.begin(), requests.end(), std::nullopt);
    request.rank = static_cast<Rank>(free - requests.begin());
  }
  check(request);
  place(request);
  store_->waiting_.push_back(&listener_);
  const bool all_there =
      std::find(requests.begin(), requests.end(), std::nullopt) == requests.end();
  if (all_there) complete();
  const bool in_time = wait_for(store_->changed_, lock, timeout, [&] {
    return listener_.world || store_->failure_ || !is_current();
  });
  std::erase(store_->waiting_, &listener_);
  if (listener_.world) {
    joined_ = true;
    return *listener_.world;
  }
  if (store_->failure_) throw Error(*store_->failure_);
  if (in_time) fail_runtime("rank {} was declared lost while it joined", listener_.rank);
  const std::string text =
      fmt::format("ranks that did not come within {:.3g} s: {}", timeout, missing_text());
  if (store_->running_) declare_lost(listener_.rank, listener_.incarnation, text);
  store_->fail_join(Error::Kind::kRuntime, text);
}

// All are there: compares them, and hands the World to those that wait for it.
void LocalRendezvous::complete() {
  const std::string difference = difference_of(*store_->requests_.front());
  if (!difference.empty()) {
    store_->fail_join(Error::Kind::kUser, "the ranks differ: " + difference);
  }
  store_->running_ = true;
  for (LocalStore::Listener* listener : store_->waiting_) {
    listener->world = world_now();
    listener->world->rank = listener->rank;
    store_->listeners_.push_back(listener);
  }
  store_->waiting_.clear();
  store_->changed_.notify_all();
}

std::string LocalRendezvous::missing_text() const {
  std::string missing;
  for (int r = 0; r < store_->size_; ++r) {
    if (!store_->requests_[r]) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", r);
  }
  return missing;
}

bool LocalRendezvous::is_current() const {
  return listener_.rank < 0 || store_->incarnations_[listener_.rank] == listener_.incarnation;
}

World LocalRendezvous::world_now() const {
  World world;
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
  if (!is_current()) return;  // declared lost: changes nothing any more
  store_->values_[key] = value;
  store_->changed_.notify_all();
}

std::string LocalRendezvous::get(const std::string& key, double timeout, Rank owner) {
  Lock lock(store_->mutex_);
  std::string lost;
  const auto done = [&] {
    if (store_->values_.contains(key)) return true;
    for (const LocalStore::News& n : listener_.news) {
      if (n.rank == owner) lost = n.lost ? n.why : "";
      const bool self = n.rank == listener_.rank && n.member.incarnation == listener_.incarnation;
      if (self && n.lost) fail_runtime("rank {} was declared lost: {}", n.rank, n.why);
    }
    return !lost.empty();
  };
  const bool ended = wait_for(store_->changed_, lock, timeout, done);
  if (!lost.empty()) fail_runtime("rank {} is lost: {}", owner, lost);
  if (!ended) fail_late(key, timeout, owner);
  return store_->values_[key];
}

void LocalRendezvous::report_lost(Rank rank, uint32_t incarnation, const std::string& why) {
  const Lock lock(store_->mutex_);
  const bool counts = joined_ && is_current();  // one that is lost accuses nobody
  if (counts && !store_->left_[rank]) declare_lost(rank, incarnation, why);
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

void LocalRendezvous::leave() {
  const Lock lock(store_->mutex_);
  if (joined_ && is_current()) store_->left_[listener_.rank] = true;
  joined_ = false;
}

int LocalRendezvous::poll(MembershipSink& sink) {
  std::vector<LocalStore::News> news;  // takes no memory while there is none
  {
    const Lock lock(store_->mutex_);
    if (listener_.news.empty()) return 0;
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
