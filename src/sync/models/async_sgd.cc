// The counterparts of the elastic family (You, Buluc and Demmel, SC17): asynchronous SGD, first
// come, first served. Equations in src/sync/sgd_center.h.
//
//   async_sgd     theta <- theta - eta g_i
//   async_msgd    V <- mu V + eta g_i,  theta <- theta - V
//   hogwild_sgd   as async_sgd, without the center's lock
// As in the paper, every push is an update at the full rate, and so an iteration: N workers make N
// iterations in the time in which bsp makes one. With `push_weight: p` a push is p of one, at p
// eta; async_msgd with push_weight 1/N is asp.
#include "src/sync/models/each_push.h"
#include "src/sync/sgd_center.h"

namespace kinet {
namespace {

class AsyncSgdFamily : public EachPush {
 public:
  std::string describe() const override { return "every push at once, nobody waits"; }

 protected:
  double weight() const override { return push_weight() > 0 ? push_weight() : 1; }
};

class AsyncSgd : public AsyncSgdFamily {
 public:
  static SyncType describe_type() {
    return {"async_sgd", "each push is a plain SGD update at the full rate"};
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<SgdCenter>(false, false);
  }
};
KINET_REGISTER_SYNC(AsyncSgd);

class AsyncMsgd : public AsyncSgdFamily {
 public:
  static SyncType describe_type() {
    return {"async_msgd", "each push is an update with the center's momentum, at the full rate"};
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<SgdCenter>(true, false);
  }
};
KINET_REGISTER_SYNC(AsyncMsgd);

class HogwildSgd : public AsyncSgdFamily {
 public:
  static SyncType describe_type() {
    return {"hogwild_sgd", "as async_sgd, but answers miss an update that is going on"};
  }
  std::unique_ptr<ServerRule> make_server_rule() const override {
    return std::make_unique<SgdCenter>(false, true);
  }
};
KINET_REGISTER_SYNC(HogwildSgd);

}  // namespace
}  // namespace kinet
