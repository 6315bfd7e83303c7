#include "comm/transports/verbs_endpoint.h"

#include <fmt/format.h>

#include "src/base/check.h"

namespace kinet {
namespace {

// Every completion that can be there at once has its place: a lost one would be a lost peer. One
// link more than there are peers: of one that is being closed.
int completion_depth(const verbs::Settings& s, int peers) {
  const int64_t receives = static_cast<int64_t>(s.receive_depth) * peers *
                           (s.use_srq ? 1 : static_cast<int64_t>(s.queue_pairs));
  const int64_t sends = static_cast<int64_t>(s.send_depth) * s.queue_pairs * (peers + 1);
  KINET_CHECK(receives + sends < (1 << 30),
              "verbs: send_depth, receive_depth and queue_pairs are too large for {} peers", peers);
  return static_cast<int>(receives + sends);
}

}  // namespace

VerbsEndpoint::VerbsEndpoint(const TransportConfig& config)
    : rank(config.rank),
      size(config.size),
      incarnation(config.incarnation),
      token(config.token),
      settings(verbs::read_settings(config.params)),
      timeout(config.timeout),
      port(verbs::choose_port(verbs::list_devices(), settings, config.local_rank)),
      device(port),
      completions(device, completion_depth(settings, peers())),
      news(device) {
  if (!settings.use_srq) return;
  receives = std::make_unique<verbs::ReceiveQueue>(device, settings.receive_depth * peers(),
                                                   kSlotBytes, true);
  receives->post_all(nullptr);
  counters.receives_posted += receives->slots();
}

verbs::GidEntry VerbsEndpoint::choose_gid() const {
  return verbs::choose_gid(device.read_gids(), settings.gid_index,
                           fmt::format("{} port {}", port.device, port.number));
}

}  // namespace kinet
