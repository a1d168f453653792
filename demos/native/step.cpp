// Train on a device, in C++: what step.c does, with objects that free what they own.
//
//   step FOLDER STEPS
//
// Exit codes: 1 for an error of the runtime or of a file, 2 for wrong arguments, 3 for a state that is
// another step's, 4 for one that is damaged. Needs C++17.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime.h"

namespace {

const OrtApi *ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);

struct Error : std::runtime_error {
  Error(int code, const std::string &text) : runtime_error(text), code(code) {}
  int code;
};
enum { FAILED = 1, USAGE = 2, STALE = 3, DAMAGED = 4 };

void check(OrtStatus *status) {
  if (!status) return;
  std::string text = ort->GetErrorMessage(status);
  ort->ReleaseStatus(status);
  throw Error(FAILED, "ONNX Runtime: " + text);
}

template <class T>
using Owned = std::unique_ptr<T, std::function<void(T *)>>;

// Call a function of the API whose last argument is where it puts an object, and own the object.
template <class T, class Function, class... Arguments>
Owned<T> made(Function function, void (*release)(T *), Arguments... arguments) {
  T *object = nullptr;
  check(function(arguments..., &object));
  return Owned<T>(object, release);
}

// What follows "name": in a JSON object; nullptr without one.
const char *entry(const char *json, const std::string &name) {
  const std::string quoted = '"' + name + '"';
  for (const char *at = json; at && (at = std::strstr(at, quoted.c_str())); at++) {
    const char *end = at + quoted.size();
    end += std::strspn(end, " \t\r\n");
    if (*end == ':') return end + 1 + std::strspn(end + 1, " \t\r\n");
  }
  return nullptr;
}

bool is_string(const char *json, const std::string &text) {
  const std::string quoted = '"' + text + '"';
  return json && !std::strncmp(json, quoted.c_str(), quoted.size());
}

// A tensor with its type and shape, as the format safetensors has them.
class Tensor {
 public:
  explicit Tensor(OrtValue *value) : value_(value, ort->ReleaseValue) {}

  // Of memory that stays the caller's.
  template <class T>
  Tensor(std::vector<T> &data, const std::vector<int64_t> &shape, ONNXTensorElementDataType type)
      : Tensor(nullptr) {
    auto memory = made<OrtMemoryInfo>(ort->CreateCpuMemoryInfo, ort->ReleaseMemoryInfo,
                                      OrtArenaAllocator, OrtMemTypeDefault);
    OrtValue *value = nullptr;
    check(ort->CreateTensorWithDataAsOrtValue(memory.get(), data.data(), data.size() * sizeof(T),
                                              shape.data(), shape.size(), type, &value));
    value_.reset(value);
  }

  OrtValue *get() const { return value_.get(); }

  char *data() const {
    void *data;
    check(ort->GetTensorMutableData(get(), &data));
    return static_cast<char *>(data);
  }

  size_t bytes() const {
    size_t count;
    check(ort->GetTensorShapeElementCount(info().get(), &count));
    return count * kind().second;
  }

  std::string description() const {
    auto info = this->info();
    size_t rank;
    check(ort->GetDimensionsCount(info.get(), &rank));
    std::vector<int64_t> shape(rank);
    check(ort->GetDimensions(info.get(), shape.data(), rank));
    std::string text = "\"dtype\":\"" + kind().first + "\",\"shape\":[";
    for (size_t k = 0; k < rank; k++) text += (k ? "," : "") + std::to_string(shape[k]);
    return text + "]";
  }

 private:
  Owned<OrtTensorTypeAndShapeInfo> info() const {
    return made<OrtTensorTypeAndShapeInfo>(ort->GetTensorTypeAndShape,
                                           ort->ReleaseTensorTypeAndShapeInfo, get());
  }

  std::pair<std::string, size_t> kind() const {
    static const std::map<int, std::pair<std::string, size_t>> kinds = {
        {1, {"F32", 4}}, {2, {"U8", 1}},   {3, {"I8", 1}},   {4, {"U16", 2}}, {5, {"I16", 2}},
        {6, {"I32", 4}}, {7, {"I64", 8}},  {9, {"BOOL", 1}}, {10, {"F16", 2}}, {11, {"F64", 8}},
        {12, {"U32", 4}}, {13, {"U64", 8}}};
    ONNXTensorElementDataType type;
    check(ort->GetTensorElementType(info().get(), &type));
    auto found = kinds.find(type);
    if (found == kinds.end()) throw Error(FAILED, "a type has no place in the file");
    return found->second;
  }

  Owned<OrtValue> value_;
};

// A model: its session, and the names of its inputs and outputs.
class Model {
 public:
  Model(OrtEnv *env, const std::string &path) {
    auto options = made<OrtSessionOptions>(ort->CreateSessionOptions, ort->ReleaseSessionOptions);
    session_ = made<OrtSession>(ort->CreateSession, ort->ReleaseSession, env, path.c_str(), options.get());
    check(ort->GetAllocatorWithDefaultOptions(&allocator_));
    inputs = names(ort->SessionGetInputCount, ort->SessionGetInputName);
    outputs = names(ort->SessionGetOutputCount, ort->SessionGetOutputName);
  }

  std::string metadata(const std::string &key) const {
    auto data = made<OrtModelMetadata>(ort->SessionGetModelMetadata, ort->ReleaseModelMetadata,
                                       session_.get());
    char *text = nullptr;
    check(ort->ModelMetadataLookupCustomMetadataMap(data.get(), allocator_, key.c_str(), &text));
    if (!text) throw Error(FAILED, "the model has no metadata '" + key + "': it is no step");
    return taken(text);
  }

  // The outputs, in their order, for values of the inputs.
  std::vector<Tensor> run(const std::map<std::string, const OrtValue *> &feeds) const {
    std::vector<const char *> given, wanted;
    std::vector<const OrtValue *> values;
    for (const auto &name : inputs) {
      auto found = feeds.find(name);
      if (found == feeds.end()) throw Error(FAILED, "the model needs '" + name + "'");
      given.push_back(name.c_str());
      values.push_back(found->second);
    }
    for (const auto &name : outputs) wanted.push_back(name.c_str());
    std::vector<OrtValue *> results(outputs.size());
    check(ort->Run(session_.get(), nullptr, given.data(), values.data(), values.size(), wanted.data(),
                   wanted.size(), results.data()));
    return std::vector<Tensor>(results.begin(), results.end());
  }

  std::vector<std::string> inputs, outputs;

 private:
  std::string taken(char *text) const {
    std::string copy = text;
    check(ort->AllocatorFree(allocator_, text));
    return copy;
  }

  template <class Count, class Name>
  std::vector<std::string> names(Count count, Name name) const {
    size_t n;
    check(count(session_.get(), &n));
    std::vector<std::string> all;
    for (size_t k = 0; k < n; k++) {
      char *text;
      check(name(session_.get(), k, allocator_, &text));
      all.push_back(taken(text));
    }
    return all;
  }

  Owned<OrtSession> session_;
  OrtAllocator *allocator_ = nullptr;
};

// A step with its state, which `run` moves on, and which `save` and `load` keep in a file.
class TrainingStep {
 public:
  TrainingStep(OrtEnv *env, const std::string &step, const std::string &initial)
      : model_(env, step), digest_(model_.metadata("pd.digest")) {
    const std::string following = model_.metadata("pd.state");  // {output: input}
    if (following.find('\\') != std::string::npos)
      throw Error(FAILED, "names of the state have to be ASCII without quotes");
    for (const auto &output : model_.outputs)
      for (const auto &input : model_.inputs)
        if (is_string(entry(following.c_str(), output), input)) next_[output] = input;
    Model first(env, initial);
    auto values = first.run({});
    for (size_t k = 0; k < values.size(); k++) state_.emplace(first.outputs[k], std::move(values[k]));
  }

  // One step; returns what it fetches, by name.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor> &batch) {
    std::map<std::string, const OrtValue *> values;
    for (const auto *part : {&batch, &std::as_const(state_)})
      for (const auto &[name, tensor] : *part) values[name] = tensor.get();
    auto results = model_.run(values);
    std::map<std::string, Tensor> fetched;
    for (size_t k = 0; k < results.size(); k++) {
      auto next = next_.find(model_.outputs[k]);
      if (next == next_.end()) fetched.emplace(model_.outputs[k], std::move(results[k]));
      else state_.at(next->second) = std::move(results[k]);
    }
    return fetched;
  }

  void save(const std::string &path) const {
    std::string header = "{\"__metadata__\":{\"pd.digest\":\"" + digest_ + "\"}";
    size_t end = 0;
    for (const auto &[name, tensor] : state_) {
      header += ",\"" + name + "\":{" + tensor.description() + ",\"data_offsets\":[" + std::to_string(end);
      header += "," + std::to_string(end += tensor.bytes()) + "]}";
    }
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::string partial = path + ".partial";  // a crash leaves the file that was there
    std::ofstream file(partial, std::ios::binary);
    for (int k = 0; k < 8; k++) file.put(static_cast<char>(uint64_t(header.size()) >> 8 * k));
    file << header;
    for (const auto &[name, tensor] : state_)
      file.write(tensor.data(), static_cast<std::streamsize>(tensor.bytes()));
    file.close();
    if (!file) throw Error(FAILED, partial + " cannot be written");
    std::filesystem::rename(partial, path);
  }

  // Whether there was a state to go on from; a state that does not fit changes nothing.
  bool load(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return false;
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    uint64_t length = 0;
    for (int k = 7; k >= 0 && bytes.size() >= 8; k--)
      length = length << 8 | static_cast<unsigned char>(bytes[static_cast<size_t>(k)]);
    if (bytes.size() < 8 || length > bytes.size() - 8) throw Error(DAMAGED, path + " is damaged: it is cut off");
    const std::string header = bytes.substr(8, length);
    const std::string arrays = bytes.substr(8 + length);
    if (!is_string(entry(header.c_str(), "pd.digest"), digest_))
      throw Error(STALE, path + " is stale: it is the state of another step");
    std::map<std::string, size_t> places;
    for (const auto &[name, tensor] : state_) {
      unsigned long long begin = 0, end = 0;
      const char *at = entry(entry(header.c_str(), name), "data_offsets");
      if (!at || std::sscanf(at, "[%llu ,%llu", &begin, &end) != 2 || end > arrays.size() || begin > end ||
          end - begin != tensor.bytes())
        throw Error(DAMAGED, path + " is damaged: '" + name + "' is not whole");
      places[name] = begin;
    }
    for (const auto &[name, tensor] : state_)
      std::memcpy(tensor.data(), arrays.data() + places[name], tensor.bytes());
    return true;
  }

 private:
  Model model_;
  std::string digest_;                       // which states fit
  std::map<std::string, std::string> next_;  // the input that an output is in the next run
  std::map<std::string, Tensor> state_;
};

int train(const std::string &folder, int steps) {
  if (!ort) throw Error(FAILED, "this ONNX Runtime is too old");
  auto env = made<OrtEnv>(ort->CreateEnv, ort->ReleaseEnv, ORT_LOGGING_LEVEL_WARNING, "step");
  TrainingStep step(env.get(), folder + "/step.onnx", folder + "/initial.onnx");
  const std::string state = folder + "/state.safetensors";
  std::cerr << (step.load(state) ? "going on\n" : "beginning\n");

  const int64_t samples = 32, features = 8;  // in the place of what the device has measured
  std::vector<float> x;
  std::vector<int64_t> label;
  for (int k = 0; k < samples * features; k++) x.push_back(static_cast<float>(std::sin(0.37 * k)));
  for (int i = 0; i < samples; i++) label.push_back(i % 3);
  std::map<std::string, Tensor> batch;
  batch.emplace("x", Tensor(x, {samples, features}, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  batch.emplace("label", Tensor(label, {samples}, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64));
  for (int k = 0; k < steps; k++) {
    auto fetched = step.run(batch);
    float loss;
    std::memcpy(&loss, fetched.begin()->second.data(), sizeof loss);
    std::printf("%.9g\n", static_cast<double>(loss));
  }
  step.save(state);
  return 0;
}

}  // namespace

int main(int count, char **words) {
  int steps = count == 3 ? std::atoi(words[2]) : 0;
  try {
    if (steps < 1) throw Error(USAGE, "usage: step FOLDER STEPS");
    return train(words[1], steps);
  } catch (const Error &error) {
    std::cerr << error.what() << '\n';
    return error.code;
  } catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return FAILED;
  }
}
