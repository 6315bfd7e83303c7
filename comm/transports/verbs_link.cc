// Bringing a link up, and what is said of it. Posting is in verbs_post.cc.
#include "comm/transports/verbs_link.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <random>

#include "comm/rendezvous.h"
#include "comm/verbs/proof.h"
#include "src/base/check.h"

namespace kinet {
namespace {

uint32_t random_packet_number() {
  static thread_local std::random_device device;
  return device() & 0xFFFFFF;
}

// A word without spaces: it travels in a line of words.
std::string word(std::string text) {
  for (char& c : text) {
    if (c <= ' ') c = '_';
  }
  return text.empty() ? "?" : text;
}

}  // namespace

VerbsLink::VerbsLink(VerbsEndpoint& endpoint, Rank peer, uint32_t epoch)
    : endpoint_(endpoint),
      peer_(peer),
      epoch_(epoch % verbs::kEpochs),
      lanes_(endpoint.settings.queue_pairs) {
  endpoint_.port = endpoint_.device.read_port();  // it may have changed since the last link
  gid_ = endpoint_.port.ethernet || endpoint_.settings.gid_index >= 0 ? endpoint_.choose_gid()
                                                                      : verbs::GidEntry{};
  const verbs::Settings& s = endpoint_.settings;
  for (Lane& lane : lanes_) make_lane(lane);
  messages_.resize(s.send_depth * kMaxMessage);
  messages_key_ = std::make_unique<verbs::MemoryKey>(endpoint_.device, messages_.data(),
                                                     messages_.size(), false);
  puts_.resize(static_cast<size_t>(s.send_depth) * s.queue_pairs + 1);
}

// Receives are posted here, in INIT: long before the peer can send anything.
void VerbsLink::make_lane(Lane& lane) {
  const verbs::Settings& s = endpoint_.settings;
  if (!s.use_srq) {
    lane.receives =
        std::make_unique<verbs::ReceiveQueue>(endpoint_.device, s.receive_depth, kSlotBytes, false);
  }
  verbs::ReceiveQueue& receives = s.use_srq ? *endpoint_.receives : *lane.receives;
  lane.pair =
      std::make_unique<verbs::QueuePair>(endpoint_.device, endpoint_.completions, receives, s);
  lane.window = {s.send_depth, s.signal_every};
  lane.own = {lane.pair->number(), random_packet_number()};
  lane.pair->modify(verbs::to_init(s, endpoint_.port), endpoint_.port);
  if (lane.receives) {
    lane.receives->post_all(lane.pair->get());
    endpoint_.counters.receives_posted += lane.receives->slots();
  }
}

std::string VerbsLink::offer() const {
  verbs::Offer offer;
  offer.host = word(host_name());
  offer.device = endpoint_.port.device;
  offer.port = endpoint_.port.number;
  offer.ethernet = endpoint_.port.ethernet;
  offer.gid = gid_.gid;
  offer.lid = endpoint_.port.lid;
  offer.mtu = endpoint_.port.mtu;
  offer.max_message = endpoint_.port.max_message;
  if (endpoint_.settings.max_piece > 0) {
    offer.max_message = std::min<uint32_t>(offer.max_message, endpoint_.settings.max_piece);
  }
  offer.credits = endpoint_.settings.receive_depth - kReservedReceives;
  for (const Lane& lane : lanes_) offer.queue_pairs.push_back(lane.own);
  return verbs::encode(offer);
}

void VerbsLink::connect(uint32_t incarnation, const verbs::Offer& offer) {
  KINET_CHECK(state == State::kOffered, "verbs: connect() to rank {} twice", peer_);
  if (offer.queue_pairs.size() != lanes_.size()) {
    fail(
        "verbs: {} queue pairs here, {} at rank {}\nhint: queue_pairs has to be equal on all ranks",
        lanes_.size(), offer.queue_pairs.size(), peer_);
  }
  there_ = offer;
  incarnation_ = incarnation;
  path_.gid = offer.gid;
  path_.lid = offer.lid;
  path_.mtu = verbs::path_mtu(endpoint_.port.mtu, offer.mtu, endpoint_.settings.mtu);
  const verbs::Settings& s = endpoint_.settings;
  uint32_t own_piece = endpoint_.port.max_message;
  if (s.max_piece > 0) own_piece = std::min<uint32_t>(own_piece, s.max_piece);
  piece_ = std::min({own_piece, offer.max_message, 1U << 30});
  const int granted = s.receive_depth - kReservedReceives;
  credits_ = {offer.credits, granted};
  // What all peers together may consume, reserves included, has a receive posted for it.
  KINET_CHECK(!endpoint_.receives ||
                  (granted + kReservedReceives) * endpoint_.peers() <= endpoint_.receives->slots(),
              "verbs: more credits granted than receives posted");
  to_ready();
  greet();
  state = State::kGreeting;
}

void VerbsLink::to_ready() {
  const verbs::Settings& s = endpoint_.settings;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    verbs::QueuePairAddress there = there_->queue_pairs[i];
    // After a restart: the peer's greeting has been received, its next packet is one further.
    if (i == 0 && peer_greeted) there.first_packet = (there.first_packet + 1) & 0xFFFFFF;
    Lane& lane = lanes_[i];
    lane.pair->modify(verbs::to_rtr(s, endpoint_.port, gid_, path_, there), endpoint_.port);
    lane.pair->modify(verbs::to_rts(s, lane.own), endpoint_.port);
  }
}

void VerbsLink::greet() {
  verbs::Greeting greeting;
  greeting.rank = static_cast<uint32_t>(endpoint_.rank);
  greeting.incarnation = endpoint_.incarnation;
  greeting.proof = proof(endpoint_.rank, peer_);
  credits_.use(1);
  post_tag(0, {verbs::MessageKind::kControl, verbs::kGreetingCode, 0},
           std::as_bytes(std::span(&greeting, 1)), true);
}

void VerbsLink::restart() {
  Lane& first = lanes_[0];
  first.pair->reset();
  epoch_ = (epoch_ + 1) % verbs::kEpochs;
  first.window = {endpoint_.settings.send_depth, endpoint_.settings.signal_every};
  first.pair->modify(verbs::to_init(endpoint_.settings, endpoint_.port), endpoint_.port);
  if (first.receives) first.receives->post_all(first.pair->get());
  verbs::QueuePairAddress there = there_->queue_pairs[0];
  if (peer_greeted) there.first_packet = (there.first_packet + 1) & 0xFFFFFF;
  first.pair->modify(verbs::to_rtr(endpoint_.settings, endpoint_.port, gid_, path_, there),
                     endpoint_.port);
  first.pair->modify(verbs::to_rts(endpoint_.settings, first.own), endpoint_.port);
  failure = {};
  credits_.refill(1);  // of the greeting that went nowhere
  greet();
}

uint64_t VerbsLink::proof(Rank from, Rank to) const {
  const bool mine = from == endpoint_.rank;
  const verbs::QueuePairAddress& here = lanes_[0].own;
  const verbs::QueuePairAddress& there = there_->queue_pairs[0];
  const verbs::QueuePairAddress& sender = mine ? here : there;
  const verbs::QueuePairAddress& reader = mine ? there : here;
  const std::array<uint32_t, 8> facts{static_cast<uint32_t>(from),
                                      static_cast<uint32_t>(to),
                                      mine ? endpoint_.incarnation : incarnation_,
                                      mine ? incarnation_ : endpoint_.incarnation,
                                      sender.number,
                                      sender.first_packet,
                                      reader.number,
                                      reader.first_packet};
  return verbs::proof(endpoint_.token, facts);
}

bool VerbsLink::is_greeting_of_peer(std::span<const std::byte> message) const {
  verbs::Greeting greeting;
  if (message.size() != sizeof(greeting)) return false;
  std::memcpy(&greeting, message.data(), sizeof(greeting));
  return greeting.magic == verbs::Greeting::kMagic &&
         greeting.rank == static_cast<uint32_t>(peer_) && greeting.incarnation == incarnation_ &&
         greeting.proof == proof(peer_, endpoint_.rank);
}

void VerbsLink::close_all_but_first() { lanes_.resize(1); }

bool VerbsLink::waits() const {
  for (const Lane& lane : lanes_) {
    if (lane.window.waits_for_signal()) return true;
  }
  return false;
}

uint64_t VerbsLink::progress() const {
  uint64_t sum = 0;
  for (const Lane& lane : lanes_) sum += lane.window.completed();
  return sum;
}

verbs::LinkNames VerbsLink::names() const {
  verbs::LinkNames names;
  const verbs::Port& port = endpoint_.port;
  names.peer = peer_;
  names.own_end = fmt::format(
      "{} port {}, {}, queue pair {}", port.device, port.number,
      port.ethernet ? verbs::to_text(gid_) : fmt::format("LID {}", port.lid), lanes_[0].own.number);
  names.peer_host = there_ ? there_->host : "an unknown host";
  names.peer_end = "not known yet";
  if (there_) {
    names.peer_end = fmt::format(
        "{} port {}, {}, queue pair {}", there_->device, there_->port,
        there_->ethernet ? verbs::to_text(there_->gid) : fmt::format("LID {}", there_->lid),
        there_->queue_pairs[0].number);
  }
  names.port_state = endpoint_.device.read_port().state;
  names.give_up_seconds = verbs::give_up_seconds(endpoint_.settings);
  names.timeout = endpoint_.settings.timeout;
  names.retries = endpoint_.settings.retry_count;
  return names;
}

std::string VerbsLink::describe(bool verbose) const {
  const verbs::LinkNames n = names();
  std::string out =
      fmt::format("{} to {}, MTU {}, {} queue pair{}, inline {}", n.own_end, n.peer_end, path_.mtu,
                  lanes_.size(), lanes_.size() == 1 ? "" : "s", lanes_[0].pair->inline_bytes());
  if (verbose) out += fmt::format(", piece {}, {}", piece_, verbs::describe(endpoint_.settings));
  return out;
}

}  // namespace kinet
