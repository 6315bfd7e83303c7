// Declared fields: what validate() reports, and what the typed getters return.
// ctest: labels=unit,core,smoke
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "src/base/check.h"
#include "src/prototxt/fields.h"
#include "tests/prototxt_helpers.h"

namespace kinet {
namespace {

using namespace prototxt_test;

const MessageType kFiller{
    "weight_filler",
    "how values are drawn",
    {string_field("type", "constant", "name"), float_field("value", "0", "of constant"),
     enum_field("variance_norm", {{"FAN_IN", 0}, {"FAN_OUT", 1}, {"AVERAGE", 2}}, "FAN_IN",
                "which fan")}};

const MessageType kConvolution{
    "convolution_param",
    "",
    {uint_field("num_output", "", "channels"), repeated(uint_field("kernel_size", "", "pixels")),
     repeated(uint_field("stride", "1", "pixels")), int_field("axis", "1", "of channels"),
     bool_field("bias_term", "true", "adds a bias"), message_field("weight_filler", kFiller, ""),
     enum_field("pool", {{"MAX", 0}, {"AVE", 1}, {"STOCHASTIC", 2}}, "MAX", ""),
     repeated(float_field("scale", "", "")),
     no_effect(enum_field("engine", {{"CAFFE", 1}}, "", "")), string_field("source", "", "path")}};

const MessageType kLayer{
    "layer",
    "",
    {string_field("name", "", ""), string_field("type", "", ""),
     repeated(string_field("top", "", "")), message_field("convolution_param", kConvolution, ""),
     repeated(message_field("param", kFiller, ""))}};

Diagnostics validated(std::string_view text, const MessageType& type,
                      const std::string& context = "") {
  Diagnostics diagnostics;
  const ParamNode root = parse_prototxt(text, "f", diagnostics);
  EXPECT_TRUE(diagnostics.ok()) << text;
  validate(root, type, context, diagnostics);
  return diagnostics;
}

Lines errors_in(std::string_view text) { return validated(text, kConvolution).errors(); }

// ---- validate ----------------------------------------------------------------------------------

TEST(Validate, AcceptsWhatCaffeAccepts) {
  for (const char* text : {"num_output: 20",
                           "num_output: 0x14",
                           "num_output: 024",
                           "num_output: 2147483647",
                           "num_output: -0",
                           "axis: -1",
                           "axis: 2147483647",
                           "axis: -2147483648",
                           "bias_term: true",
                           "bias_term: True",
                           "bias_term: t",
                           "bias_term: 1",
                           "bias_term: false",
                           "bias_term: False",
                           "bias_term: f",
                           "bias_term: 0",
                           "pool: MAX",
                           "pool: \"AVE\"",
                           "pool: 'AVE'",
                           "pool: 2",
                           "scale: 1",
                           "scale: 1.5f",
                           "scale: -.5",
                           "scale: 1e-3",
                           "scale: 3.4e38",
                           "scale: 1e-400",
                           "kernel_size: 3 kernel_size: 5",
                           "kernel_size: [3, 5]",
                           "kernel_size: []",
                           "source: ''",
                           "weight_filler { type: 'xavier' }",
                           "weight_filler {}",
                           ""}) {
    EXPECT_EQ(errors_in(text), Lines()) << text;
  }
}

struct Wrong {
  const char* text;
  const char* error;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.text; }

class ValidateErrors : public testing::TestWithParam<Wrong> {};

TEST_P(ValidateErrors, Message) { EXPECT_EQ(errors_in(GetParam().text), Lines{GetParam().error}); }

INSTANTIATE_TEST_SUITE_P(
    All, ValidateErrors,
    testing::Values(
        Wrong{"kernelsize: 3", "f:1:1: unknown field 'kernelsize' (did you mean 'kernel_size'?)"},
        Wrong{"Axis: 3", "f:1:1: unknown field 'Axis' (did you mean 'axis'?)"},
        Wrong{"quite_else: 3", "f:1:1: unknown field 'quite_else'"},
        Wrong{"weight_filler { quite: 3 }",
              "f:1:17: weight_filler: unknown field 'quite' (its fields: type, value, "
              "variance_norm)"},
        Wrong{"num_output: \"abc\"",
              "f:1:13: field 'num_output' wants a whole number, not \"abc\""},
        Wrong{"num_output: \"5\"", "f:1:13: field 'num_output' wants a whole number, not \"5\""},
        Wrong{"num_output: many", "f:1:13: field 'num_output' wants a whole number, not many"},
        Wrong{"num_output: 1.5", "f:1:13: field 'num_output' wants a whole number, not 1.5"},
        Wrong{"num_output: 1e3", "f:1:13: field 'num_output' wants a whole number, not 1e3"},
        Wrong{"num_output: -1",
              "f:1:13: field 'num_output' wants a whole number that is not negative, not -1"},
        Wrong{"num_output: -99999999999999999999",
              "f:1:13: field 'num_output' wants a whole number that is not negative, not "
              "-99999999999999999999"},
        Wrong{"num_output: 2147483648",
              "f:1:13: field 'num_output' wants a whole number up to 2147483647, not 2147483648"},
        Wrong{"axis: 4294967297",
              "f:1:7: field 'axis' wants a whole number up to 2147483647, not 4294967297"},
        Wrong{"axis: 9223372036854775808",
              "f:1:7: field 'axis' wants a whole number up to 2147483647, not "
              "9223372036854775808"},
        Wrong{"axis: -2147483649",
              "f:1:7: field 'axis' wants a whole number from -2147483648 on, not -2147483649"},
        Wrong{"scale: inf", "f:1:8: field 'scale' wants a finite number, not inf"},
        Wrong{"scale: [1, -inf]", "f:1:12: field 'scale' wants a finite number, not -inf"},
        Wrong{"scale: nan", "f:1:8: field 'scale' wants a finite number, not nan"},
        Wrong{"num_output { }",
              "f:1:12: field 'num_output' wants a whole number, not a message { ... }"},
        Wrong{"scale: [1, x]", "f:1:12: field 'scale' wants a number, not x"},
        Wrong{"scale: \"1\"", "f:1:8: field 'scale' wants a number, not \"1\""},
        Wrong{"scale: 1e39", "f:1:8: field 'scale' wants a number of at most 3.4e38, not 1e39"},
        Wrong{"bias_term: yes",
              "f:1:12: field 'bias_term' wants true or false, without quotes, not yes"},
        Wrong{"bias_term: \"true\"",
              "f:1:12: field 'bias_term' wants true or false, without quotes, not \"true\""},
        Wrong{"bias_term: 2",
              "f:1:12: field 'bias_term' wants true or false, without quotes, not 2"},
        Wrong{"source: data", "f:1:9: field 'source' wants a string in quotes: source: \"data\""},
        Wrong{"source: 5", "f:1:9: field 'source' wants a string in quotes: source: \"5\""},
        Wrong{"source { }", "f:1:8: field 'source' wants a string, not a message { ... }"},
        Wrong{"pool: MAXX",
              "f:1:7: field 'pool' wants one of MAX, AVE, STOCHASTIC, not MAXX (did you mean "
              "'MAX'?)"},
        Wrong{"pool: \"max\"",
              "f:1:7: field 'pool' wants one of MAX, AVE, STOCHASTIC, not \"max\" (did you mean "
              "'MAX'?)"},
        Wrong{"pool: 3", "f:1:7: field 'pool' wants one of MAX, AVE, STOCHASTIC, not 3"},
        Wrong{"pool { }",
              "f:1:6: field 'pool' wants one of MAX, AVE, STOCHASTIC, not a message { ... }"},
        Wrong{"weight_filler: \"xavier\"",
              "f:1:16: field 'weight_filler' is a message, written weight_filler { ... }, not "
              "\"xavier\""},
        Wrong{"axis: 1\naxis: 2", "f:2:1: field 'axis' is given twice, first at f:1:1"},
        Wrong{"axis: [1, 2]", "f:1:1: field 'axis' takes one value, not a list"},
        Wrong{"weight_filler { } weight_filler { value: x }",
              "f:1:19: field 'weight_filler' is given twice, first at f:1:1"}));

// Case A1: a wrong field name and, beside it, another error: both are reported, with the layer.
TEST(Validate, AllErrorsWithTheirOwnerAndPlace) {
  const Diagnostics diagnostics = validated(
      "name: \"conv1\"\n"
      "type: \"Convolution\"\n"
      "tops: \"conv1\"\n"
      "convolution_param {\n"
      "  num_output: \"20\"\n"
      "  kernelsize: 3\n"
      "  weight_filler { typ: \"xavier\" variance_norm: FANIN }\n"
      "}\n",
      kLayer, "layer 'conv1' (Convolution)");
  const std::string layer = "layer 'conv1' (Convolution)", param = layer + ", convolution_param";
  const std::string filler = param + ", weight_filler";
  const Lines expected{
      "f:3:1: " + layer + ": unknown field 'tops' (did you mean 'top'?)",
      "f:5:15: " + param + ": field 'num_output' wants a whole number, not \"20\"",
      "f:6:3: " + param + ": unknown field 'kernelsize' (did you mean 'kernel_size'?)",
      "f:7:19: " + filler + ": unknown field 'typ' (did you mean 'type'?)",
      "f:7:48: " + filler + ": field 'variance_norm' wants one of FAN_IN, FAN_OUT, AVERAGE, not " +
          "FANIN (did you mean 'FAN_IN'?)"};
  EXPECT_EQ(diagnostics.errors(), expected);
}

TEST(Validate, FieldsWithoutEffectAreNotedOnceInAFile) {
  Diagnostics diagnostics;
  const ParamNode root =
      parse("convolution_param { engine: CAFFE }\nconvolution_param { engine: WHATEVER }\n");
  for (const ParamNode& child : root.children) validate(child, kConvolution, "", diagnostics);
  EXPECT_EQ(diagnostics.errors(), Lines());
  EXPECT_EQ(diagnostics.notes(), Lines{"f:1:21: field 'engine' has no effect in kinet"});
}

TEST(Validate, AFieldWithoutEffectStillCannotBeGivenTwice) {
  EXPECT_EQ(errors_in("engine: CAFFE engine: CAFFE"),
            Lines{"f:1:15: field 'engine' is given twice, first at f:1:1"});
}

TEST(Validate, AMessageWithoutDeclaredTypeMayHoldAnything) {
  Field any = message_field("any", kFiller, "");
  any.message = nullptr;
  EXPECT_TRUE(validated("any { x: 1 y { } }", MessageType{"m", "", {any}}).ok());
}

TEST(Validate, HostileValuesAreShownSafelyAndShort) {
  const Lines errors = errors_in("num_output: \"\\033[2J" + std::string(500, 'x') + "\"");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].find('\033'), std::string::npos);
  EXPECT_LT(errors[0].size(), 150u);
}

// ---- Params ------------------------------------------------------------------------------------

TEST(Params, ValuesOfTheFile) {
  const ParamNode root = parse(
      "num_output: 0x14 axis: -2 bias_term: f pool: 1 source: 's' kernel_size: 3 scale: [1, 2.5f]\n"
      "kernel_size: 5 weight_filler { type: 'xavier' value: 1e-1 variance_norm: 'AVERAGE' }");
  const Params params(&root, &kConvolution);
  EXPECT_TRUE(params.present());
  EXPECT_EQ(params.get_int("num_output"), 20);
  EXPECT_EQ(params.get_int("axis"), -2);
  EXPECT_FALSE(params.get_bool("bias_term"));
  EXPECT_EQ(params.get_enum("pool"), "AVE");
  EXPECT_EQ(params.get_string("source"), "s");
  EXPECT_EQ(params.get_ints("kernel_size"), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(params.get_floats("scale"), (std::vector<float>{1.0f, 2.5f}));
  EXPECT_EQ(params.count("kernel_size"), 2);
  const Params filler = params.message("weight_filler");
  EXPECT_EQ(filler.get_string("type"), "xavier");
  EXPECT_EQ(filler.get_double("value"), 0.1);
  EXPECT_EQ(filler.get_float("value"), 0.1f);
  EXPECT_EQ(filler.get_enum("variance_norm"), "AVERAGE");
}

TEST(Params, DeclaredDefaultsWhenAbsent) {
  const ParamNode empty;
  for (const Params& params : {Params(&empty, &kConvolution), Params(nullptr, &kConvolution)}) {
    EXPECT_EQ(params.get_int("num_output"), 0);
    EXPECT_EQ(params.get_int("axis"), 1);
    EXPECT_TRUE(params.get_bool("bias_term"));
    EXPECT_EQ(params.get_enum("pool"), "MAX");
    EXPECT_EQ(params.get_string("source"), "");
    EXPECT_TRUE(params.get_ints("kernel_size").empty());
    EXPECT_EQ(params.get_ints("stride"), std::vector<int64_t>{1});
    EXPECT_TRUE(params.get_floats("scale").empty());
    EXPECT_FALSE(params.has("axis"));
    EXPECT_EQ(params.count("kernel_size"), 0);
    const Params filler = params.message("weight_filler");
    EXPECT_FALSE(filler.present());
    EXPECT_EQ(filler.get_string("type"), "constant");
    EXPECT_EQ(filler.get_float("value"), 0.0f);
    EXPECT_EQ(filler.get_enum("variance_norm"), "FAN_IN");
    EXPECT_EQ(filler.node(), nullptr);
  }
  EXPECT_FALSE(Params(nullptr, &kConvolution).present());
}

TEST(Params, SpecialNumbers) {
  const ParamNode root = parse("scale: [inf, -inf, nan, 1e-400]");
  const std::vector<float> scale = Params(&root, &kConvolution).get_floats("scale");
  EXPECT_EQ(scale[0], INFINITY);
  EXPECT_EQ(scale[1], -INFINITY);
  EXPECT_TRUE(std::isnan(scale[2]));
  EXPECT_EQ(scale[3], 0.0f);
}

TEST(Params, RepeatedMessagesAndStrings) {
  const ParamNode root = parse("top: 'a' param { value: 1 } top: 'b' param { } param { value: 3 }");
  const Params params(&root, &kLayer);
  EXPECT_EQ(params.get_strings("top"), (Lines{"a", "b"}));
  const std::vector<Params> messages = params.messages("param");
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[2].get_float("value"), 3.0f);
  EXPECT_FALSE(messages[1].has("value"));
  EXPECT_TRUE(Params(nullptr, &kLayer).messages("param").empty());
  EXPECT_TRUE(Params(nullptr, &kLayer).get_strings("top").empty());
}

TEST(Params, PositionsOfValuesAndMessages) {
  const ParamNode root = parse("\nconvolution_param { axis: 5 }");
  const Params params = Params(&root, &kLayer).message("convolution_param");
  EXPECT_EQ(params.where("axis").str(), "f:2:27");
  EXPECT_EQ(params.where("num_output").str(), "f:2:1") << "absent: the message";
  EXPECT_EQ(Params(&root, &kLayer).where("convolution_param").str(), "f:2:1");
  EXPECT_EQ(Params(nullptr, &kLayer).where("name").str(), "");
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Params, WrongValuesThrowWithTheirPlace) {
  const ParamNode root = parse("axis: x weight_filler: 1 kernel_size: [1, -1] pool: NONE");
  const Params params(&root, &kConvolution);
  EXPECT_EQ(message_of([&] { params.get_int("axis"); }),
            "f:1:7: field 'axis' wants a whole number, not x");
  EXPECT_NE(message_of([&] { params.get_ints("kernel_size"); }), "");
  EXPECT_NE(message_of([&] { params.get_enum("pool"); }), "");
  EXPECT_NE(message_of([&] { params.message("weight_filler"); }), "");
}

TEST(Params, AskingWronglyThrows) {
  const Params params(nullptr, &kConvolution);
  EXPECT_EQ(message_of([&] { params.get_int("kernelsize"); }),
            "convolution_param declares no field 'kernelsize', but it is asked for");
  EXPECT_EQ(message_of([&] { params.get_string("axis"); }),
            "convolution_param declares field 'axis' with another kind than it is asked for");
  EXPECT_NE(message_of([&] { params.has("none"); }), "");
  EXPECT_NE(message_of([&] { params.get_double("axis"); }), "");
  EXPECT_NE(message_of([&] { params.message("axis"); }), "");
}

TEST(Params, FailAtNamesThePlace) {
  const ParamNode root = parse("a: 1");
  EXPECT_EQ(message_of([&] { fail_at(root.children[0].where, "wrong"); }), "f:1:1: wrong");
  EXPECT_EQ(message_of([&] { fail_at(Position(), "wrong"); }), "wrong");
}

TEST(Fields, DeclarationsAreWhatTheyWereGiven) {
  const Field* field = kConvolution.find("stride");
  ASSERT_NE(field, nullptr);
  EXPECT_TRUE(field->repeated);
  EXPECT_EQ(field->kind, FieldKind::kUint);
  EXPECT_EQ(field->default_value, "1");
  EXPECT_EQ(field->help, "pixels");
  EXPECT_TRUE(kConvolution.find("engine")->no_effect);
  EXPECT_EQ(kConvolution.find("weight_filler")->message, &kFiller);
  EXPECT_EQ(kConvolution.find("none"), nullptr);
  EXPECT_EQ(kFiller.field_names(), (Lines{"type", "value", "variance_norm"}));
}

}  // namespace
}  // namespace kinet
