#include "bench/verbs_minimal.h"

#include <cstring>
#include <sstream>
#include <stdexcept>

namespace kinet::bench {
namespace {

constexpr int kDepth = 64;        // of both queues
constexpr uint64_t kSignal = 32;  // one completion in so many writes

void need(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(std::string("minimal ping-pong: ") + what);
}

bool is_ipv4(const ibv_gid& gid) {
  return gid.global.subnet_prefix == 0 && gid.raw[10] == 0xFF && gid.raw[11] == 0xFF;
}

}  // namespace

MinimalPair::MinimalPair(const std::string& device) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    if (device == ibv_get_device_name(list[i])) context_ = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  need(context_ != nullptr, "no such device");
  for (gid_index_ = 0; gid_index_ < 16; ++gid_index_) {
    if (ibv_query_gid(context_, 1, gid_index_, &gid_) == 0 && is_ipv4(gid_)) break;
  }
  need(gid_index_ < 16, "no IPv4 address");
  domain_ = ibv_alloc_pd(context_);
  queue_ = ibv_create_cq(context_, 2 * kDepth, nullptr, nullptr, 0);
  region_ = ibv_reg_mr(domain_, memory_.data(), memory_.size(),
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = queue_;
  init.cap = {kDepth, kDepth, 1, 1, 64};
  init.qp_type = IBV_QPT_RC;
  pair_ = ibv_create_qp(domain_, &init);
  need(pair_ != nullptr && region_ != nullptr, "no queue pair");
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  need(ibv_modify_qp(pair_, &a,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
       "INIT");
  for (int i = 0; i < kDepth; ++i) {
    ibv_recv_wr request{}, *bad = nullptr;
    ibv_post_recv(pair_, &request, &bad);
  }
}

MinimalPair::~MinimalPair() {
  ibv_destroy_qp(pair_);
  ibv_dereg_mr(region_);
  ibv_destroy_cq(queue_);
  ibv_dealloc_pd(domain_);
  ibv_close_device(context_);
}

std::string MinimalPair::offer() const {
  std::ostringstream out;
  out << pair_->qp_num << ' ' << reinterpret_cast<uintptr_t>(memory_.data()) << ' ' << region_->rkey
      << ' ' << gid_.global.subnet_prefix << ' ' << gid_.global.interface_id;
  return out.str();
}

void MinimalPair::connect(const std::string& offer) {
  ibv_qp_attr a{};
  std::istringstream in(offer);
  in >> a.dest_qp_num >> there_ >> key_ >> a.ah_attr.grh.dgid.global.subnet_prefix >>
      a.ah_attr.grh.dgid.global.interface_id;
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.min_rnr_timer = 12;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  a.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index_);
  a.ah_attr.grh.hop_limit = 64;
  need(ibv_modify_qp(pair_, &a,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 16;
  a.retry_cnt = a.rnr_retry = 6;
  need(ibv_modify_qp(pair_, &a,
                     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

void MinimalPair::write(uint32_t bytes) {
  ibv_sge place{reinterpret_cast<uintptr_t>(memory_.data()), bytes, region_->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &place;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_INLINE;
  if (++posted_ % kSignal == 0) request.send_flags |= IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = there_;
  request.wr.rdma.rkey = key_;
  need(ibv_post_send(pair_, &request, &bad) == 0, "post");
}

void MinimalPair::wait_for_write() {
  for (;;) {
    ibv_wc done{};
    if (ibv_poll_cq(queue_, 1, &done) == 0) continue;
    need(done.status == IBV_WC_SUCCESS, ibv_wc_status_str(done.status));
    if (done.opcode != IBV_WC_RECV_RDMA_WITH_IMM) continue;
    ibv_recv_wr request{}, *bad = nullptr;
    ibv_post_recv(pair_, &request, &bad);
    return;
  }
}

void MinimalPair::ping_pong(bool first, uint32_t bytes) {
  if (first) write(bytes);
  wait_for_write();
  if (!first) write(bytes);
}

}  // namespace kinet::bench
