// What MnistData, Cifar10Data, Data and ImageData share: batches of a data set, made ahead, as
// tops.
//
// Shapes: top 0 data N C H W, top 1 (optional) label N; N = batch_size, less in the last batch of
// an
//         epoch while stop_at_epoch_end is asked for. With batch_size 1, H and W follow each image.
// Order:  a permutation of each epoch from the run's seed (data/order.h); seek() is exact. A batch
//         that reaches the end of an epoch goes on with the next one, so a batch larger than the
//         data set holds items of several epochs.
// Nothing but the first item is decoded before the first forward, and no thread runs before it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/prefetch.h"
#include "src/base/check.h"
#include "src/net/batch_feed.h"
#include "src/net/layer.h"

namespace kinet {

// The data set behind a layer as the solver sees it.
class PrefetchedSource : public BatchSource {
 public:
  explicit PrefetchedSource(Prefetcher& prefetcher) : prefetcher_(prefetcher) {}

  const Dataset& dataset() const { return prefetcher_.maker().dataset(); }
  int64_t items() const override { return dataset().items(); }
  int64_t batch_size() const override { return prefetcher_.maker().batch_size(); }
  int64_t position() const override { return prefetcher_.position(); }
  void seek(int64_t position) override { prefetcher_.seek(position); }
  void partition(int64_t worker, int64_t workers) override {
    prefetcher_.partition(worker, workers);
  }
  void stop_at_epoch_end(bool stop) override { prefetcher_.stop_at_epoch_end(stop); }
  std::string describe() const override { return dataset().describe(); }
  int64_t skipped() const override { return prefetcher_.skipped(); }
  void check_labels(int64_t classes) const override { kinet::check_labels(dataset(), classes); }

 private:
  Prefetcher& prefetcher_;
};

class BatchDataLayer : public Layer, public BatchFeed {
 public:
  void set_up(const std::vector<Shape>& bottoms) override;
  std::vector<Shape> reshape(const std::vector<Shape>& bottoms, WorkspacePlan& plan) override;
  void forward(const Context& context, Tensors bottoms, Tensors tops) override;
  PrefetchedSource* batch_source() override { return source_.get(); }
  std::string summary() const override;
  BatchFeed::Batch take() override;
  BatchFeed::Batch peek() override;
  void lie_in(std::shared_ptr<DeviceMemory> device) override;

 protected:
  // A registered type with the fields every data layer has: `own` come first in `message`.
  static LayerType describe_data(const std::string& type, const std::string& help,
                                 const MessageType& message);
  // batch_size, shuffle, prefetch, threads, on_error.
  static std::vector<Field> common_fields(const std::string& batch_size_default,
                                          const std::string& shuffle_help);
  // `own` followed by `common`.
  static std::vector<Field> with(std::vector<Field> own, std::vector<Field> common);

  // The layer's own message ("data_param").
  virtual Params source_params() const = 0;
  virtual std::shared_ptr<const Dataset> open(const Params& source,
                                              const TransformSpec& transform) = 0;
  virtual bool shuffles_in_training() const { return true; }

  // The path in a string field, resolved; an empty or missing file is reported with all the places
  // looked at.
  std::string existing_path(const Params& source, const std::string& field) const;
  std::string existing_path(const std::string& written, const Position& where) const;

 private:
  using HostBatch = kinet::Batch;
  BatchFeed::Batch in_parts(std::shared_ptr<const HostBatch> batch) const;
  static void copy(const HostBatch& batch, Tensors tops);
  [[noreturn]] void rethrow_here(const Error& error, Error::Kind kind) const;

  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<PrefetchedSource> source_;
};

}  // namespace kinet
