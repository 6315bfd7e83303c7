#include "comm/join_run.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "comm/meeting_point.h"
#include "comm/tcp_rendezvous.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr std::chrono::milliseconds kLookAgain{20};  // for the note of rank 0
constexpr double kOneAttempt = 2;  // seconds; the note may be that of a run that was killed

std::unique_ptr<RendezvousServer> host(const RankIdentity& me, const std::string& token,
                                       const LogLine& log) {
  RendezvousServerOptions options;
  options.size = me.size;
  options.token = token;
  options.log = log;
  if (!me.rendezvous.empty()) options.listen = parse_host_port(me.rendezvous, "--rendezvous");
  return std::make_unique<RendezvousServer>(std::move(options));
}

// Waits for the note of rank 0 and follows it.
std::unique_ptr<Rendezvous> meet(const std::string& folder, double timeout) {
  std::string last = "it has left no note";
  for (const Deadline deadline(timeout); !deadline.passed();
       std::this_thread::sleep_for(kLookAgain)) {
    const std::optional<MeetingNote> note = read_meeting_note(folder);
    if (!note) continue;
    try {
      return std::make_unique<TcpRendezvous>(note->address, note->token,
                                             std::min(kOneAttempt, deadline.left()));
    } catch (const Error& error) {  // an old note, most likely: rank 0 is about to write its own
      last = error.what();
    }
  }
  fail_runtime("rank 0 did not open the meeting point {} within {:.3g} s: {}", folder, timeout,
               last);
}

}  // namespace

JoinRequest request_of(const RankIdentity& me) {
  JoinRequest request;
  request.rank = me.rank;
  request.size = me.size;
  request.node = node_id();
  request.host = host_name();
  request.process = getpid();
  return request;
}

JoinedRun join_run(const RankIdentity& me, const JoinRequest& request, double timeout,
                   const LogLine& log) {
  const Deadline deadline(timeout);
  JoinedRun run;
  std::string token = me.token;
  if (!me.token_file.empty()) token = read_token_file(me.token_file);
  std::unique_ptr<MeetingPoint> note;  // gone as soon as all have met
  if (me.hosts_rendezvous) {
    if (!me.meeting_folder.empty()) token = random_token();
    run.server_ = host(me, token, log);
    const HostPort& address = run.server_->address();
    if (!me.meeting_folder.empty()) {
      note = std::make_unique<MeetingPoint>(me.meeting_folder, MeetingNote{address, token});
    }
    run.rendezvous_ = std::make_unique<TcpRendezvous>(address, token, deadline.left());
  } else if (!me.meeting_folder.empty()) {
    run.rendezvous_ = meet(me.meeting_folder, timeout);
  } else {
    run.rendezvous_ = std::make_unique<TcpRendezvous>(
        parse_host_port(me.rendezvous, "--rendezvous"), token, deadline.left());
  }
  run.world_ = run.rendezvous_->join(request, deadline.left());
  return run;
}

JoinedRun join_threads(const std::shared_ptr<LocalStore>& store, const JoinRequest& request,
                       double timeout) {
  JoinedRun run;
  run.rendezvous_ = std::make_unique<LocalRendezvous>(store);
  run.world_ = run.rendezvous_->join(request, timeout);
  return run;
}

// The others hear "rank 0 is lost" before they hear that the rendezvous is gone.
JoinedRun::~JoinedRun() {
  rendezvous_.reset();
  server_.reset();
}

void JoinedRun::leave(double seconds) {
  if (rendezvous_) rendezvous_->leave();
  if (server_) server_->wait_until_left(seconds);
}

}  // namespace kinet
