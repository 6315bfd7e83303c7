// The parser and the book of the rendezvous stand all bytes that anybody can send.
// ctest: labels=unit,core timeout=120
#include <gtest/gtest.h>

#include "comm/rendezvous_book.h"
#include "src/base/rng.h"

namespace kinet {
namespace {

JoinRequest request(Rank rank, int size) {
  JoinRequest r;
  r.rank = rank;
  r.size = size;
  r.node = "node";
  r.host = "host";
  r.process = 100 + rank;
  r.fingerprint = {{"solver", "ab12"}};
  return r;
}

// Valid frames with a few bytes changed, cut or doubled, fed to the book as a member's.
TEST(RendezvousFuzz, TheBookStandsAllFrames) {
  Rng random(1);
  const std::vector<std::string> seeds = {
      join_frame(request(0, 3), 1),
      join_frame(request(-1, 3), 1e9),
      join_frame(request(2, 4), 0),
      FrameWriter().text("key").text("value").frame(RendezvousKind::kSet),
      FrameWriter().number(1).text("key").frame(RendezvousKind::kGet),
      FrameWriter().number(1).frame(RendezvousKind::kCancel),
      lost_frame(RendezvousKind::kReportLost, 1, 0, "why"),
      FrameWriter().frame(RendezvousKind::kLeave)};
  int accepted = 0, refused = 0;
  for (int run = 0; run < 300; ++run) {
    RendezvousBook book(3, run % 2 == 0);
    for (int step = 0; step < 60; ++step) {
      std::string bytes = seeds[random.below(seeds.size())];
      for (uint64_t n = random.below(4); n > 0; --n) {
        bytes[4 + random.below(bytes.size() - 4)] = static_cast<char>(random.below(256));
      }
      if (random.below(8) == 0) bytes.resize(5 + random.below(bytes.size() - 4));
      const RendezvousFrame frame{static_cast<RendezvousKind>(bytes[4]), bytes.substr(5)};
      const RendezvousBook::Connection from = 1 + random.below(6);
      if (book.receive(from, frame, step).empty()) {
        ++accepted;
      } else {
        ++refused;
        book.closed(from, "rubbish");
      }
      if (random.below(10) == 0) book.closed(from, "gone");
      if (random.below(10) == 0) {
        book.process_ended(static_cast<Rank>(random.below(3)), 100, "ended", Error::Kind::kRuntime);
      }
      book.tick(step);
      for (const auto& out : book.take_outgoing()) {
        FrameSplitter splitter;
        splitter.add(out.frame.data(), out.frame.size());
        RendezvousFrame whole;
        ASSERT_EQ(splitter.next(kMaxRendezvousFrame, whole), FrameSplitter::Result::kFrame);
        ASSERT_TRUE(whole.kind != RendezvousKind::kWorld || read_world(whole));
      }
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(RendezvousFuzz, TheSplitterStandsAllBytes) {
  Rng random(2);
  for (int run = 0; run < 2000; ++run) {
    FrameSplitter splitter;
    size_t frames = 0, bytes = 0;
    for (int step = 0; step < 20; ++step) {
      std::string piece(random.below(40), '\0');
      for (char& c : piece) c = static_cast<char>(random.below(4) == 0 ? random.below(256) : 0);
      bytes += piece.size();
      splitter.add(piece.data(), piece.size());
      RendezvousFrame frame;
      FrameSplitter::Result result{};
      while ((result = splitter.next(kMaxHello, frame)) == FrameSplitter::Result::kFrame) {
        ++frames;
        ASSERT_LT(frame.body.size(), kMaxHello);
        read_join(frame), read_world(frame), read_news(frame), read_hello(frame, "token");
      }
      if (result == FrameSplitter::Result::kBadLength) break;
      ASSERT_LE(splitter.buffered(), kMaxHello + 4);
    }
    ASSERT_LE(frames, bytes / 5);
  }
}

}  // namespace
}  // namespace kinet
