#include "comm/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>

#include "comm/sockets.h"
#include "src/base/check.h"

namespace kinet {
namespace {

constexpr int kMaxRanks = 16384;
constexpr int64_t kFirstSpecialStep = 4294967280;  // Slurm: batch script, interactive step, ...

// What an engine that starts ranks says.
struct Job {
  std::string engine;
  int rank = -1, size = 0;
  int local_size = 0;  // ranks of this node; 0: not told
  std::string name;    // of the job on this node; "": not told
};

class Reader {
 public:
  explicit Reader(const Variables& variables) : variables_(variables) {}

  bool has(const char* name) const { return variables_.contains(name); }
  std::string text(const char* name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? "" : found->second;
  }
  // `missing` when it is not there. Throws when it is no whole number.
  int64_t number(const char* name, int64_t missing) const {
    if (!has(name)) return missing;
    const std::string value = text(name);
    int64_t out = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, out);
    KINET_CHECK(error == std::errc() && stop == end && out >= 0,
                "the variable {} is '{}', not a number\nhint: whatever starts the ranks sets it; "
                "--rank, --size, --rendezvous and --token-file do without it",
                name, value);
    return out;
  }
  int small(const char* name, int missing) const {
    return static_cast<int>(std::min<int64_t>(number(name, missing), 1 << 30));
  }

 private:
  const Variables& variables_;
};

std::optional<Job> open_mpi_job(const Reader& v) {
  if (!v.has("OMPI_COMM_WORLD_RANK") || !v.has("OMPI_COMM_WORLD_SIZE")) return std::nullopt;
  Job job{"Open MPI", v.small("OMPI_COMM_WORLD_RANK", -1), v.small("OMPI_COMM_WORLD_SIZE", 0),
          v.small("OMPI_COMM_WORLD_LOCAL_SIZE", 0), v.text("PMIX_NAMESPACE")};
  if (job.name.empty()) job.name = v.text("OMPI_MCA_ess_base_jobid");
  return job;
}

// Inside of a batch script or an interactive shell a number of tasks is set too, but nobody has
// started them: only a numbered step counts.
std::optional<Job> slurm_job(const Reader& v) {
  if (!v.has("SLURM_PROCID") || !v.has("SLURM_STEP_ID")) return std::nullopt;
  if (v.number("SLURM_STEP_ID", 0) >= kFirstSpecialStep) return std::nullopt;
  Job job{"Slurm", v.small("SLURM_PROCID", -1),
          v.small("SLURM_STEP_NUM_TASKS", v.small("SLURM_NTASKS", 0)), 0,
          v.text("SLURM_JOB_ID") + "." + v.text("SLURM_STEP_ID")};
  if (v.small("SLURM_STEP_NUM_NODES", v.small("SLURM_NNODES", 0)) == 1) job.local_size = job.size;
  return job;
}

// Hydra has no name for a job.
std::optional<Job> pmi_job(const Reader& v) {
  if (!v.has("PMI_RANK") || !v.has("PMI_SIZE")) return std::nullopt;
  Job job{"PMI", v.small("PMI_RANK", -1), v.small("PMI_SIZE", 0), v.small("MPI_LOCALNRANKS", 0),
          v.text("PMI_JOBID")};
  const std::optional<Job> slurm = slurm_job(v);  // srun --mpi=pmi2
  if (job.local_size == 0 && slurm && slurm->size == job.size) job.local_size = slurm->local_size;
  return job;
}

std::optional<Job> find_job(const Reader& v) {
  for (const auto& find : {open_mpi_job, pmi_job, slurm_job}) {
    const std::optional<Job> job = find(v);
    if (!job) continue;
    KINET_CHECK(job->size >= 1 && job->rank >= 0 && job->rank < job->size,
                "{} says rank {} of {} ranks\nhint: --workers 1 trains in this process alone",
                job->engine, job->rank, job->size);
    return job;
  }
  KINET_CHECK(!v.has("PMIX_RANK"),
              "PMIx says rank {} but not of how many\nhint: give --rank, --size, --rendezvous and "
              "--token-file, or --workers 1 to train in this process alone",
              v.text("PMIX_RANK"));
  return std::nullopt;
}

// A path that is the same for all ranks of the job on this node, and no other's.
std::string meeting_folder_of(const Job& job, const Reader& v, int64_t parent) {
  std::error_code ignored;
  std::string base = v.text("XDG_RUNTIME_DIR");
  if (base.empty() || base.front() != '/' || !std::filesystem::is_directory(base, ignored)) {
    base = "/tmp";
  }
  std::string name = fmt::format("{}-{}", job.engine,
                                 job.name.empty() ? fmt::format("parent-{}", parent) : job.name);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '-';
  }
  return fmt::format("{}/kinet-{}-{}", base, geteuid(), name.substr(0, 80));
}

// A place needs a secret, and the other way round.
void check_meeting(const LaunchSettings& s, const std::string& who) {
  KINET_CHECK(
      !s.rendezvous.empty(),
      "{} needs --rendezvous host:port\nhint: an address of the machine of rank 0, the same "
      "for all ranks",
      who);
  KINET_CHECK(!s.token_file.empty(),
              "{} needs --token-file FILE\nhint: a file with the secret of this run, the same text "
              "for all ranks: (umask 077; openssl rand -hex 16 > run.token)",
              who);
  parse_host_port(s.rendezvous, "--rendezvous");
}

RankIdentity rank_of_launcher(const LaunchSettings& s, const Reader& v) {
  for (const char* name : {"KINET_SIZE", "KINET_RENDEZVOUS", "KINET_TOKEN"}) {
    KINET_CHECK(v.has(name),
                "KINET_RANK is set, {} is not\nhint: these variables are for processes "
                "that 'kinet --workers' starts: unset them",
                name);
  }
  RankIdentity me;
  me.role = Role::kRank;
  me.source = "--workers";
  me.rank = v.small("KINET_RANK", 0);
  me.size = v.small("KINET_SIZE", 0);
  me.rendezvous = v.text("KINET_RENDEZVOUS");
  me.token = v.text("KINET_TOKEN");
  // More when some ranks are servers.
  KINET_CHECK(s.workers == 0 || s.workers <= me.size,
              "KINET_SIZE is {}, --workers {}\nhint: unset KINET_RANK", me.size, s.workers);
  return me;
}

RankIdentity rank_by_hand(const LaunchSettings& s) {
  KINET_CHECK(s.workers <= 1,
              "--workers and --rank exclude each other\nhint: --workers starts all ranks on this "
              "machine; --rank is one rank that you start yourself");
  KINET_CHECK(s.rank >= 0, "--size {} needs --rank too", s.size);
  KINET_CHECK(s.size > 0, "--rank {} needs --size, the number of ranks", s.rank);
  RankIdentity me;
  me.role = Role::kRank;
  me.source = "--rank";
  me.rank = s.rank;
  me.size = s.size;
  if (s.size > 1) check_meeting(s, "a rank that is started by hand");
  return me;
}

RankIdentity rank_of_job(const Job& job, const LaunchSettings& s, const Reader& v, int64_t parent) {
  KINET_CHECK(s.workers == 0,
              "--workers {} in a job of {} ranks that {} has started\nhint: leave --workers out; "
              "each rank is one worker",
              s.workers, job.size, job.engine);
  RankIdentity me;
  me.role = Role::kRank;
  me.source = job.engine;
  me.rank = job.rank;
  me.size = job.size;
  if (!s.rendezvous.empty() || !s.token_file.empty()) {
    check_meeting(s, "a job with a place to meet");
  } else {
    KINET_CHECK(job.local_size == job.size,
                "{} has started {} ranks, and not all on this machine ({} here)\nhint: across "
                "machines give --rendezvous host:port, an address of the machine of rank 0, and "
                "--token-file FILE, a file with a secret that all machines can read",
                job.engine, job.size,
                job.local_size > 0 ? std::to_string(job.local_size) : "unknown how many");
    me.meeting_folder = meeting_folder_of(job, v, parent);
  }
  return me;
}

RankIdentity workers_or_alone(const LaunchSettings& s) {
  const bool place = !s.rendezvous.empty() || !s.token_file.empty();
  KINET_CHECK(!place || s.workers > 1,
              "{} needs --rank and --size\nhint: it is for ranks that you "
              "start by hand, or by mpirun or srun on several machines",
              s.rendezvous.empty() ? "--token-file" : "--rendezvous");
  KINET_CHECK(!place,
              "--workers meets on this machine by itself: leave out --rendezvous and "
              "--token-file");
  RankIdentity me;
  if (s.workers <= 1) return me;
  KINET_CHECK(s.workers <= kMaxRanks, "--workers {}: at most {}", s.workers, kMaxRanks);
  me.role = Role::kLauncher;
  me.size = s.workers;
  me.source = "--workers";
  return me;
}

RankIdentity find_identity(const LaunchSettings& s, const Reader& v, int64_t parent) {
  KINET_CHECK(s.workers >= 0, "--workers {}: a number from 1", s.workers);
  if (v.has("KINET_RANK")) return rank_of_launcher(s, v);
  if (s.rank >= 0 || s.size > 0) return rank_by_hand(s);
  const std::optional<Job> job = s.workers == 1 ? std::nullopt : find_job(v);
  if (job && job->size > 1) return rank_of_job(*job, s, v, parent);
  return workers_or_alone(s);
}

}  // namespace

RankIdentity who_am_i(const LaunchSettings& settings, const Variables& variables, int64_t parent) {
  RankIdentity me = find_identity(settings, Reader(variables), parent);
  if (me.role != Role::kRank) return me;
  KINET_CHECK(me.size >= 1 && me.size <= kMaxRanks, "{} ranks: 1 to {} can run together", me.size,
              kMaxRanks);
  KINET_CHECK(me.rank < me.size, "rank {} of {} ranks\nhint: ranks count from 0 to {}", me.rank,
              me.size, me.size - 1);
  if (me.size == 1 && me.token.empty()) return {};
  if (!me.token.empty()) return me;
  me.hosts_rendezvous = me.rank == 0;
  if (me.meeting_folder.empty()) {
    me.rendezvous = settings.rendezvous;
    me.token_file = settings.token_file;
  }
  return me;
}

RankIdentity who_am_i(const LaunchSettings& settings) {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return who_am_i(settings, variables, getppid());
}

std::vector<std::string> rank_variables(Rank rank, int size, const std::string& rendezvous,
                                        const std::string& token) {
  return {fmt::format("KINET_RANK={}", rank), fmt::format("KINET_SIZE={}", size),
          "KINET_RENDEZVOUS=" + rendezvous, "KINET_TOKEN=" + token};
}

}  // namespace kinet
