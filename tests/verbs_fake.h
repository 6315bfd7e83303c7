// Two RDMA devices of imagination, "rxe0" and "rxe1", in place of libibverbs' functions: the
// definitions here win over the library's, for the one test program that includes this file.
//
// Work requests act at once: a SEND lands in a receive of the queue pair that the sender's RTR step
// named, a WRITE in its target's memory. What reaches no queue pair in RTR or RTS is kept, and sent
// again when that gets there, or fails in time_out(). Every call that matters is written down in
// `calls`. Thread safety: none; one thread.
#pragma once

#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kinet::fake {

struct Queue : ibv_cq {
  std::deque<ibv_wc> done;
};
struct SharedReceives : ibv_srq {
  std::deque<ibv_recv_wr> posted;
  std::deque<ibv_sge> places;
};
struct Request {
  ibv_send_wr request{};
  std::vector<std::byte> data;
};
struct Pair : ibv_qp {
  ibv_qp_state at = IBV_QPS_RESET;
  uint32_t there = 0;
  int access = 0;
  std::deque<ibv_recv_wr> posted;
  std::deque<ibv_sge> places;
  std::vector<Request> unanswered;
};

struct World {
  std::vector<std::string> calls;
  std::vector<std::string> first_calls;  // the first three of the process
  std::map<uint32_t, Pair*> pairs;
  std::array<ibv_device, 2> devices{};
  uint32_t next_number = 100;
  int inline_limit = 512;
  bool open_denied = false, no_memory = false, port_down = false, no_device = false;
  int refused_state = -1;  // modify_qp to this one says EINVAL

  void note(const std::string& call) {
    calls.push_back(call);
    if (first_calls.size() < 3) first_calls.push_back(call);
  }
};

inline World& world() {
  static World w;
  return w;
}

inline void complete(ibv_cq* queue, uint64_t id, ibv_wc_status status, ibv_wc_opcode opcode,
                     uint32_t pair, uint32_t bytes, uint32_t immediate) {
  ibv_wc done{};
  done.wr_id = id;
  done.status = status;
  done.opcode = opcode;
  done.qp_num = pair;
  done.byte_len = bytes;
  done.imm_data = immediate;
  static_cast<Queue*>(queue)->done.push_back(done);
}

// A queue pair breaks as a device's does: the oldest request says why, the others were flushed.
inline void time_out(uint32_t number) {
  Pair& pair = *world().pairs.at(number);
  ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;
  for (const Request& r : std::exchange(pair.unanswered, {})) {
    complete(pair.send_cq, r.request.wr_id, std::exchange(status, IBV_WC_WR_FLUSH_ERR), IBV_WC_SEND,
             number, 0, 0);
  }
  pair.at = IBV_QPS_ERR;
}

// Takes a receive of the peer's for `bytes` at `data`.
inline void deliver(Pair& to, const std::byte* data, uint32_t bytes, ibv_wc_opcode opcode,
                    uint32_t immediate) {
  const bool shared = to.srq != nullptr;
  auto& posted = shared ? static_cast<SharedReceives*>(to.srq)->posted : to.posted;
  auto& places = shared ? static_cast<SharedReceives*>(to.srq)->places : to.places;
  if (posted.empty()) {
    world().note("receiver not ready");
    return;
  }
  if (opcode == IBV_WC_RECV && bytes > 0) {
    std::memcpy(reinterpret_cast<void*>(places.front().addr), data, bytes);
  }
  complete(to.recv_cq, posted.front().wr_id, IBV_WC_SUCCESS, opcode, to.qp_num, bytes, immediate);
  posted.pop_front();
  places.pop_front();
}

// What leaves reaches the peer, or nobody: false.
inline bool carry_out(Pair& pair, const Request& r) {
  const auto target = world().pairs.find(pair.there);
  Pair* to = target == world().pairs.end() ? nullptr : target->second;
  if (to == nullptr || (to->at != IBV_QPS_RTR && to->at != IBV_QPS_RTS)) return false;
  const auto bytes = static_cast<uint32_t>(r.data.size());
  if (r.request.opcode == IBV_WR_SEND_WITH_IMM) {
    deliver(*to, r.data.data(), bytes, IBV_WC_RECV, r.request.imm_data);
  } else {
    if (bytes > 0 && (to->access & IBV_ACCESS_REMOTE_WRITE) != 0) {
      std::memcpy(reinterpret_cast<void*>(r.request.wr.rdma.remote_addr), r.data.data(), bytes);
    }
    if (r.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
      deliver(*to, nullptr, bytes, IBV_WC_RECV_RDMA_WITH_IMM, r.request.imm_data);
    }
  }
  if ((r.request.send_flags & IBV_SEND_SIGNALED) != 0) {
    complete(pair.send_cq, r.request.wr_id, IBV_WC_SUCCESS, IBV_WC_SEND, pair.qp_num, 0, 0);
  }
  return true;
}

inline int post_send(ibv_qp* from, ibv_send_wr* request, ibv_send_wr**) {
  Pair& pair = *static_cast<Pair*>(from);
  world().note("post_send");
  Request r{*request, {}};
  if (request->num_sge > 0) {
    const auto* data = reinterpret_cast<const std::byte*>(request->sg_list[0].addr);
    r.data.assign(data, data + request->sg_list[0].length);
  }
  if (!carry_out(pair, r)) pair.unanswered.push_back(std::move(r));
  return 0;
}

// The device of whoever sent too early tries again.
inline void try_again(uint32_t number) {
  for (const auto& [other, pair] : world().pairs) {
    if (pair->there != number) continue;
    for (Request& r : std::exchange(pair->unanswered, {})) {
      if (!carry_out(*pair, r)) pair->unanswered.push_back(std::move(r));
    }
  }
}

template <class Target>
int post_receives(Target& to, ibv_recv_wr* request, const char* name) {
  for (; request != nullptr; request = request->next) {
    to.posted.push_back(*request);
    to.places.push_back(*request->sg_list);
    world().note(name);
  }
  return 0;
}

inline ibv_context_ops operations() {
  ibv_context_ops ops{};
  ops.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
    auto& done = static_cast<Queue*>(queue)->done;
    int taken = 0;
    for (; taken < count && !done.empty(); ++taken, done.pop_front()) out[taken] = done.front();
    return taken;
  };
  ops.req_notify_cq = [](ibv_cq*, int) { return 0; };
  ops.post_send = post_send;
  ops.post_recv = [](ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr**) {
    return post_receives(*static_cast<Pair*>(pair), request, "post_recv");
  };
  ops.post_srq_recv = [](ibv_srq* queue, ibv_recv_wr* request, ibv_recv_wr**) {
    return post_receives(*static_cast<SharedReceives*>(queue), request, "post_srq_recv");
  };
  return ops;
}

}  // namespace kinet::fake

#undef ibv_query_port
#undef ibv_reg_mr

extern "C" {

using kinet::fake::world;

ibv_device** ibv_get_device_list(int* count) {
  world().note("get_device_list");
  static const char* const kNames[] = {"rxe0", "rxe1"};
  auto** list = new ibv_device*[3]();
  *count = world().no_device ? 0 : 2;
  for (int i = 0; i < *count; ++i) {
    list[i] = &world().devices[i];
    std::strcpy(list[i]->name, kNames[i]);
  }
  return list;
}
void ibv_free_device_list(ibv_device** list) { delete[] list; }
const char* ibv_get_device_name(ibv_device* device) { return device->name; }
ibv_fork_status ibv_is_fork_initialized() {
  world().note("is_fork_initialized");
  return IBV_FORK_DISABLED;
}
int ibv_fork_init() {
  world().note("fork_init");
  return 0;
}

ibv_context* ibv_open_device(ibv_device* device) {
  if (world().open_denied) return errno = EACCES, nullptr;
  auto* context = new ibv_context{};
  context->device = device;
  context->ops = kinet::fake::operations();
  context->async_fd = eventfd(0, EFD_NONBLOCK);
  return context;
}
int ibv_close_device(ibv_context* context) {
  close(context->async_fd);
  delete context;
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* out) {
  *out = {};
  out->phys_port_cnt = 1;
  out->max_qp_wr = out->max_cqe = out->max_srq_wr = 32767;
  out->max_srq = out->max_qp = 1000;
  return 0;
}
int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* raw) {
  auto* out = reinterpret_cast<ibv_port_attr*>(raw);
  out->state = world().port_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
  out->active_mtu = IBV_MTU_4096;
  out->max_msg_sz = 1U << 23;
  out->link_layer = IBV_LINK_LAYER_ETHERNET;
  out->active_speed = 4;
  out->active_width = 1;
  return 0;
}
ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* out, size_t, uint32_t, size_t) {
  *out = {};
  out->gid.raw[10] = out->gid.raw[11] = 0xFF;
  out->gid.raw[12] = 10;
  out->gid.raw[15] = context->device == &world().devices[0] ? 1 : 2;
  out->gid_index = 1;
  out->port_num = 1;
  out->gid_type = IBV_GID_TYPE_ROCE_V2;
  return 1;
}
ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* domain = new ibv_pd{};
  domain->context = context;
  return domain;
}
int ibv_dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd*, void*, size_t, uint64_t, unsigned int) {
  world().note("reg_mr");
  if (world().no_memory) return errno = ENOMEM, nullptr;
  return new ibv_mr{};
}
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* data, size_t bytes, int access) {
  return ibv_reg_mr_iova2(domain, data, bytes, 0, static_cast<unsigned>(access));
}
int ibv_dereg_mr(ibv_mr* region) {
  delete region;
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context*) {
  auto* channel = new ibv_comp_channel{};
  channel->fd = eventfd(0, EFD_NONBLOCK);
  return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  close(channel->fd);
  delete channel;
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int depth, void*, ibv_comp_channel*, int) {
  auto* queue = new kinet::fake::Queue{};
  queue->context = context;
  queue->cqe = depth;
  return queue;
}
int ibv_destroy_cq(ibv_cq* queue) {
  delete static_cast<kinet::fake::Queue*>(queue);
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel*, ibv_cq**, void**) { return -1; }
void ibv_ack_cq_events(ibv_cq*, unsigned int) {}
int ibv_get_async_event(ibv_context*, ibv_async_event*) { return -1; }
void ibv_ack_async_event(ibv_async_event*) {}

ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr*) {
  auto* queue = new kinet::fake::SharedReceives{};
  queue->context = domain->context;
  return queue;
}
int ibv_destroy_srq(ibv_srq* queue) {
  delete static_cast<kinet::fake::SharedReceives*>(queue);
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* init) {
  if (static_cast<int>(init->cap.max_inline_data) > world().inline_limit) {
    return errno = EINVAL, nullptr;
  }
  auto* pair = new kinet::fake::Pair{};
  pair->context = domain->context;
  pair->send_cq = init->send_cq;
  pair->recv_cq = init->recv_cq;
  pair->srq = init->srq;
  pair->qp_num = world().next_number++;
  world().pairs[pair->qp_num] = pair;
  return pair;
}
int ibv_destroy_qp(ibv_qp* pair) {
  world().pairs.erase(pair->qp_num);
  delete static_cast<kinet::fake::Pair*>(pair);
  return 0;
}
int ibv_modify_qp(ibv_qp* raw, ibv_qp_attr* attributes, int mask) {
  auto& pair = *static_cast<kinet::fake::Pair*>(raw);
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
    pair.access = static_cast<int>(attributes->qp_access_flags);
  if ((mask & IBV_QP_STATE) == 0) return 0;
  static const char* const kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  world().note(kNames[attributes->qp_state]);
  if (attributes->qp_state == world().refused_state) return EINVAL;
  pair.at = attributes->qp_state;
  if (pair.at == IBV_QPS_RTR) {
    pair.there = attributes->dest_qp_num;
    kinet::fake::try_again(pair.qp_num);
  }
  if (pair.at == IBV_QPS_RESET) {
    pair.posted.clear();
    pair.places.clear();
    pair.unanswered.clear();
  }
  return 0;
}

}  // extern "C"
