// A rank that is stopped past the limit, replaced, and then goes on: it must do no harm to its
// successor, nor to anybody else, and must end by saying that it was declared lost.
// ctest: labels=integration timeout=300 serial
#include "comm/launch.h"
#include "comm/rendezvous_server.h"
#include "tests/launch_processes.h"

namespace kinet {
namespace {

class Successor : public RanksTest, public testing::WithParamInterface<const char*> {
 protected:
  // A rank as our launcher starts it: by hand, rank 0 would host the rendezvous itself.
  std::unique_ptr<Process> rank(int number, const std::string& address) const {
    std::vector<std::string> words{"/usr/bin/env"};
    for (const std::string& v : rank_variables(number, 4, address, kToken)) words.push_back(v);
    const std::string program = KINET_BINARY_DIR "/examples/neighbours";
    words.insert(words.end(),
                 {program, "--until", stop_, "--transport", GetParam(), "--heartbeat", "4"});
    return std::make_unique<Process>(words, folder_);
  }

  const std::string kToken = "0123456789abcdef0123456789abcdef";
};

TEST_P(Successor, IsNotHarmedByTheOneBefore) {
  RendezvousServerOptions options;
  options.size = 4;
  options.token = kToken;
  // Rank 0 by hand hosts the rendezvous itself; so that any rank can be started anew, the test
  // does, as the launcher of a cluster would.
  const RendezvousServer server(options);
  std::vector<std::unique_ptr<Process>> ranks;
  const std::string address = server.address().text();
  for (int r = 0; r < 4; ++r) ranks.push_back(rank(r, address));
  for (const auto& r : ranks) {
    ASSERT_TRUE(r->wait_for("well under way", kSeconds)) << r->out() << r->err();
  }
  const auto old = std::move(ranks[2]);
  old->send(SIGSTOP);
  ASSERT_TRUE(ranks[1]->wait_for("rank 1: rank 2 is gone", kSeconds)) << ranks[1]->out();
  ranks[2] = rank(2, address);
  ASSERT_TRUE(ranks[2]->wait_for("incarnation 1", kSeconds)) << ranks[2]->out() << ranks[2]->err();
  ASSERT_TRUE(ranks[2]->wait_for("well under way", kSeconds)) << ranks[2]->out() << ranks[2]->err();
  old->send(SIGCONT);
  const ProcessResult gone = old->wait(kSeconds);
  EXPECT_EQ(gone.status, 1) << gone.out;
  EXPECT_HAS(gone.err, "rank 2 was declared lost");
  usleep(300000);  // the successor and the others go on
  touch(stop_);
  for (const auto& r : ranks) {
    const ProcessResult end = r->wait(kSeconds);
    EXPECT_EQ(end.status, 0) << end.out << end.err;
    EXPECT_HAS(end.out, "every byte right");
    EXPECT_EQ((end.out + end.err).find("WRONG"), std::string::npos) << end.out << end.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Successor, testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace kinet
