// Names that are not known, and what was probably meant.
#include "base/names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace diffmj {
namespace {

const std::vector<std::string> kNames = {"rtol", "atol", "max_steps", "max_step", "tsit5"};

TEST(NearestName, IsTheSimilarOne) {
  EXPECT_EQ(nearest_name("rtoll", kNames), "rtol");
  EXPECT_EQ(nearest_name("tsit6", kNames), "tsit5");
  EXPECT_EQ(nearest_name("TSIT5", kNames), "tsit5");
  EXPECT_EQ(nearest_name("tist5", kNames), "tsit5");
}

TEST(NearestName, IsEmptyWhereNoneIsSimilar) {
  EXPECT_EQ(nearest_name("gravity", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("x", kNames), "");
}

TEST(UnknownName, SuggestsAndLists) {
  EXPECT_EQ(unknown_name("control", "cubic", std::vector<std::string>{"hold", "linear"}),
            "control 'cubic' is not known; use hold or linear");
  EXPECT_EQ(unknown_name("option", "rtoll", kNames),
            "option 'rtoll' is not known; did you mean 'rtol'? Use one of rtol, atol, max_steps, "
            "max_step, tsit5");
}

enum class Fruit { kApple, kPear };
constexpr std::pair<Fruit, const char*> kFruits[] = {{Fruit::kApple, "apple"},
                                                     {Fruit::kPear, "pear"}};

TEST(Names, OfEnumerations) {
  EXPECT_STREQ(name_of(kFruits, Fruit::kPear), "pear");
  EXPECT_EQ(value_of("fruit", kFruits, "apple"), Fruit::kApple);
  EXPECT_THROW((void)value_of("fruit", kFruits, "plum"), InputError);
  EXPECT_EQ(names_of(kFruits), std::vector<std::string>({"apple", "pear"}));
}

}  // namespace
}  // namespace diffmj
