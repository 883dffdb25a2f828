// Translates with an exported model, without Python:  translate FOLDER SIGNATURE TEXT...
//
//   ./translate saved_models/spa-eng/1 greedy "¿Todavía están en casa?"
//   {"score": [-0.452979326], "translation": ["Are you still at home?"], "truncated": [false]}
//
// serve/README.md has the command that compiles it. Each TEXT is a row of the signature's input `text`.
// TensorFlow Serving loads and runs a model with the same calls.

#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session.h"

namespace tf = tensorflow;

void require_ok(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

// Returns the JSON string of a UTF-8 text.
std::string quoted(const tf::tstring& text) {
  std::string json = "\"";
  for (unsigned char byte : text) {
    char escaped[7];
    std::snprintf(escaped, sizeof escaped, byte < 0x20 ? "\\u%04x" : byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    json += escaped;
  }
  return json + '"';
}

std::string element(const tf::Tensor& tensor, int64_t at) {
  char number[32];
  switch (tensor.dtype()) {
    case tf::DT_STRING: return quoted(tensor.flat<tf::tstring>()(at));
    case tf::DT_BOOL: return tensor.flat<bool>()(at) ? "true" : "false";
    case tf::DT_INT32: return std::to_string(tensor.flat<int32_t>()(at));
    case tf::DT_FLOAT: std::snprintf(number, sizeof number, "%.9g", tensor.flat<float>()(at)); return number;
    default: throw std::runtime_error("unexpected type of an output: " + tf::DataTypeString(tensor.dtype()));
  }
}

// Returns nested JSON lists for `size` elements from `at` on. The axes of the tensor from `axis` on hold them.
std::string nested(const tf::Tensor& tensor, int axis, int64_t at, int64_t size) {
  if (axis == tensor.dims()) return element(tensor, at);
  std::string json = "[";
  const int64_t rows = tensor.dim_size(axis);
  for (int64_t row = 0; row < rows; ++row)
    json += (row ? ", " : "") + nested(tensor, axis + 1, at + row * (size / rows), size / rows);
  return json + "]";
}

int main(int count, char** arguments) try {
  if (count < 3) throw std::runtime_error("usage: translate FOLDER SIGNATURE TEXT...");
  tf::SavedModelBundle model;
  require_ok(tf::LoadSavedModel({}, {}, arguments[1], {"serve"}, &model));
  const auto found = model.GetSignatures().find(arguments[2]);
  if (found == model.GetSignatures().end() || !found->second.inputs().contains("text"))
    throw std::runtime_error(std::string("SIGNATURE must have the input text, received ") + arguments[2]);

  tf::Tensor text(tf::DT_STRING, {count - 3});
  for (int row = 0; row < count - 3; ++row) text.flat<tf::tstring>()(row) = arguments[row + 3];
  std::vector<std::string> names, fetches;
  for (const auto& [name, info] : found->second.outputs()) names.push_back(name), fetches.push_back(info.name());
  std::vector<tf::Tensor> values;
  require_ok(model.GetSession()->Run({{found->second.inputs().at("text").name(), text}}, fetches, {}, &values));
  for (size_t i = 0; i < names.size(); ++i)
    std::cout << (i ? ", \"" : "{\"") << names[i] << "\": " << nested(values[i], 0, 0, values[i].NumElements());
  std::cout << "}" << std::endl;
} catch (const std::exception& error) {
  std::cerr << "translate: " << error.what() << std::endl;
  return 1;
}
