// One iteration: iter_size times forward and backward, then average, clip and update.
//
// With a learning-rate search every worker multiplies its gradient by its own multiplier m_r before
// they are summed; the update divides by the mean and takes the mean into the rate, so that
//   w <- w - schedule(i) (1/N) sum_r m_r g_r
// while clipping and weight decay see the (weighted) mean gradient and the rate that is in use.
//
// Invariant: a loss or gradient that is not finite changes nothing: neither weights nor buffers nor
// history nor the position of the data. Nor does an iteration that the user cuts short.
#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/math/vec.h"
#include "src/solver/solver_impl.h"

namespace kinet {
namespace {

// Lets the sum over all workers begin while backward is still running.
class SumEarly : public PassHook {
 public:
  SumEarly(Bsp* bsp, PassHook* next) : bsp_(bsp), next_(next) {}
  bool go_on() override { return next_ == nullptr || next_->go_on(); }
  bool wants_gradients() const override {
    return bsp_ != nullptr || (next_ != nullptr && next_->wants_gradients());
  }
  void gradients_final(size_t from, size_t to) override {
    if (next_ != nullptr) next_->gradients_final(from, to);
    if (bsp_ == nullptr || failed_) return;
    try {
      bsp_->gradients_final(from, to);
    } catch (const Error&) {  // a worker is lost; reduce() meets the same and says so
      failed_ = true;
    }
  }

 private:
  Bsp* bsp_;
  PassHook* next_;
  bool failed_ = false;
};

}  // namespace

// Equation: loss and gradient are means over the micro-batches, so that iter_size batches of n give
// the same update as one batch of n * iter_size.
bool Solver::Impl::compute_gradient(SolverControl* control) {
  note("computing the gradient");
  const double begin = now();
  const std::vector<int64_t> before = positions();
  train->keep_buffers(buffers_before);  // batch-norm statistics: few floats
  lr_states_before = lr_states;
  search_passes = 0;
  train->zero_gradients();
  double sum = 0;
  SumEarly early(bsp, pass_hook);
  GoOnOnly earlier(pass_hook);
  for (int64_t micro = 0; micro < settings.iter_size && std::isfinite(sum); ++micro) {
    if (control != nullptr && control->stop_now) {
      if (bsp != nullptr) break;  // the others have to hear of it
      undo_iteration(before);
      return false;
    }
    const bool last = micro + 1 == settings.iter_size;
    const std::optional<double> one =
        run_pass(micro, last ? static_cast<PassHook*>(&early) : &earlier);
    if (!one) {
      undo_iteration(before);
      return false;
    }
    sum += *one;
  }
  const auto count = static_cast<double>(settings.iter_size);
  loss = sum / count;
  const bool whole = control == nullptr || !control->stop_now;
  if (lr_search != nullptr && whole && std::isfinite(loss)) search_rate(before);
  if (bsp != nullptr && !exchange_gradients(control, before, now() - begin)) return false;
  const double parts = static_cast<double>(batches_an_update()) * in_gradient();
  norm = gradient_length() / parts;
  if (!std::isfinite(loss) || !std::isfinite(norm)) stop_non_finite(before);
  recent.push_back(loss);
  while (static_cast<int64_t>(recent.size()) > settings.average_loss) recent.pop_front();
  return true;
}

// The loss of one micro-batch, or none when the hook has ended the pass.
std::optional<double> Solver::Impl::run_pass(int64_t micro, PassHook* hook) {
  return train->forward_backward(context(Phase::kTrain, pass_number(micro)), hook);
}

double Solver::Impl::pause_after(double computed) {
  if (options.step_seconds) {
    // Virtual time knows no search: its passes are a third of a step each.
    const double step = options.slow_factor * options.step_seconds();
    const double searching = step * static_cast<double>(search_passes) / 3;
    search_seconds += searching;
    return step + searching;
  }
  return (options.slow_factor - 1) * computed;
}

bool Solver::Impl::exchange_gradients(SolverControl* control, const std::vector<int64_t>& before,
                                      double computed) {
  const std::atomic<bool>* stop_now = control == nullptr ? nullptr : &control->stop_now;
  WorkerStep step;
  step.loss = loss;
  step.multiplier = own_multiplier();
  step.state = search_words();
  if (step.multiplier != 1) {
    const std::span<float> g = train->gradient_arena();
    vec().scale(static_cast<int64_t>(g.size()), static_cast<float>(step.multiplier), g.data(),
                g.data());
  }
  step.finite = std::isfinite(loss);
  GlobalStep all;
  try {
    bsp->pause(pause_after(computed), stop_now);
    step.stop = control != nullptr && control->stop;
    step.stop_now = control != nullptr && control->stop_now;
    step.snapshot = control != nullptr && control->snapshot.exchange(false);
    note("waiting for the gradients of the others");
    // Who is told twice to stop waits for nobody, nor for an agreement.
    exchange_broken = !bsp->reduce(step, stop_now, all);
    if (device_optimizer != nullptr) train->gradients_are_up();
  } catch (const Error& error) {
    exchange_broken = true;
    if (control == nullptr || !control->stop_now) {
      undo_iteration(before);
      stop_for_loss(error);
    }
  }
  if (exchange_broken) {
    undo_iteration(before);
    stop_agreed = true;
    return false;
  }
  if (all.stop_now && control != nullptr) control->stop_now = true;
  snapshot_agreed = all.snapshot;
  stop_agreed = all.stop || all.stop_now;
  if (stop_agreed) {
    undo_iteration(before);
    return false;
  }
  loss = all.not_finite.empty() ? all.loss : NAN;
  multiplier = all.multiplier;
  take_search_words(all.states);
  return true;
}

// All workers have the same weights, so the first that is still there can save them.
void Solver::Impl::stop_for_loss(const Error& error) {
  std::string saved = last_snapshot.empty() ? "none" : last_snapshot;
  const Rank writer = bsp->writer();
  if (writer < 0) fail_runtime("iteration {}: {}", iteration, bsp->declared_lost());
  const bool tried = snapshot_tried == iteration;
  if (writer == options.worker && settings.snapshot_after_train && !tried) {
    try {
      saved = snapshot();
      observer.on_snapshot(iteration, saved);
    } catch (const Error& failure) {
      observer.on_warning(
          fmt::format("no snapshot of iteration {}: {}", iteration, failure.what()));
    }
  }
  fail_runtime("iteration {}: {}\n  training stops, this update is not applied; last snapshot: {}",
               iteration, error.what(), saved);
}

void Solver::Impl::note(const std::string& phase, bool slow) {
  if (bsp != nullptr) bsp->note(iteration, phase, slow);
}

// Before the update only the position of the data and the buffers have changed.
void Solver::Impl::undo_iteration(const std::vector<int64_t>& before) {
  seek(before);
  lr_states = lr_states_before;
  if (lr_search != nullptr) lr_search->restore(lr_states[options.worker]);
  train->restore_buffers(buffers_before);
}

bool Solver::Impl::updates_on_device() const {
  return device_optimizer != nullptr && link == nullptr;
}

double Solver::Impl::gradient_length() {
  if (!updates_on_device()) return gradient_norm(train->gradient_arena(), threads);
  return train->device()->norm(train->gradients_on_device(), train->parameter_floats());
}

void Solver::Impl::apply_update() {
  UpdateStep step;
  step.step = iteration + 1;
  step.learning_rate = rate = scheduled_rate();
  if (!std::isfinite(static_cast<float>(rate))) {
    fail_runtime(
        "iteration {}: the learning rate is {:g}; training stops\n  last snapshot: {}\n"
        "hint: look at gamma and power of lr_policy \"{}\"",
        iteration, rate, last_snapshot.empty() ? "none" : last_snapshot, policy.policy);
  }
  step.threads = threads;
  double scale = 1 / (static_cast<double>(batches_an_update()) * in_gradient());
  if (settings.clip > 0 && norm > settings.clip) scale *= settings.clip / norm;
  step.gradient_scale = static_cast<float>(scale);
  // Before the update, which would be waited for: on a device the statistics come to the host.
  if (bsp != nullptr) bsp->average(train->buffer_arena());
  if (updates_on_device()) {
    device_history.to_device();
    device_history.written_on_device();
    device_optimizer->update(step, {train->parameters_on_device(), train->gradients_on_device(),
                                    device_history.device_data(), train->parameter_floats()});
  } else {
    host_history();
    optimizer->update(segments, step, {train->parameter_arena(), train->gradient_arena(), history});
    if (device_optimizer != nullptr) device_history.written_on_host();
  }
  ++iteration;
}

// Plays the iteration again from the same data and random numbers to find where it went wrong.
void Solver::Impl::stop_non_finite(const std::vector<int64_t>& before) {
  seek(before);
  std::string place;
  for (int64_t micro = 0; micro < settings.iter_size && place.empty(); ++micro) {
    place = train->find_non_finite(context(Phase::kTrain, pass_number(micro)));
  }
  undo_iteration(before);
  if (place.empty()) {
    place = bsp != nullptr ? "another worker, or the sum over the workers"
                           : "the sum of the gradients over iter_size";
  }
  fail_runtime(
      "iteration {}: {} is not finite; training stops and this update is not applied\n"
      "  first found in {}\n  last snapshot: {}\n"
      "hint: lower base_lr (the rate is {:.6g}), warm up with warmup_iter, or limit the gradient "
      "with clip_gradients; look for wrong values in the data",
      iteration,
      std::isfinite(loss) ? "the gradient"
      : std::isnan(loss)  ? "the loss (nan)"
                          : "the loss (inf)",
      place, last_snapshot.empty() ? "none" : last_snapshot, scheduled_rate());
}

std::vector<int64_t> Solver::Impl::positions() const {
  std::vector<int64_t> out;
  for (const BatchSource* source : train->batch_sources()) out.push_back(source->position());
  return out;
}

void Solver::Impl::seek_all(int64_t at) {
  for (BatchSource* source : train->batch_sources()) {
    source->seek(at * batches_an_update() * source->batch_size());
  }
}

void Solver::Impl::seek(const std::vector<int64_t>& positions) {
  for (size_t i = 0; i < positions.size(); ++i) train->batch_sources()[i]->seek(positions[i]);
}

}  // namespace kinet
