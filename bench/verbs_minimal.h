// The least that RDMA WRITE WITH IMMEDIATE needs: one queue pair, one region, no credits, no
// choices. What the verbs transport is measured against.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kinet::bench {

class MinimalPair {
 public:
  explicit MinimalPair(const std::string& device);
  ~MinimalPair();
  MinimalPair(const MinimalPair&) = delete;
  MinimalPair& operator=(const MinimalPair&) = delete;

  std::string offer() const;
  void connect(const std::string& offer);

  // Writes `bytes` inline and waits for the peer's write; the first one to call begins.
  void ping_pong(bool first, uint32_t bytes);

 private:
  void write(uint32_t bytes);
  void wait_for_write();

  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_qp* pair_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::vector<char> memory_ = std::vector<char>(4096);
  ibv_gid gid_{};
  int gid_index_ = 0;
  uint64_t there_ = 0;
  uint32_t key_ = 0;
  uint64_t posted_ = 0;
};

}  // namespace kinet::bench
