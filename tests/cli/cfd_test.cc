// The command line with contacts from distance.
#include <gtest/gtest.h>

#include <string>

#include "cli_fixture.h"

namespace diffmj::cli {
namespace {

TEST_F(CliTest, ContactsFromDistance) {
  const std::string run = "grad " + zoo("contact_pairs") + " --key test --nstep 5";
  const Json plain = json(run), cfd = json(run + " --cfd 0.3"),
             wide = json(run + " --cfd '0.5 0 0.1 1 4 0.02' --cfd-max-contacts 3");
  EXPECT_FALSE(plain.contains("cfd"));
  EXPECT_EQ(plain["loss"], cfd["loss"]);
  EXPECT_NE(plain["gradient"]["qpos"], cfd["gradient"]["qpos"]);
  EXPECT_EQ(cfd["cfd"]["width"], 0.3);
  EXPECT_EQ(cfd["cfd"]["evaluations"], 5);
  EXPECT_EQ(wide["cfd"]["d_0"], 0.1);
  EXPECT_EQ(wide["cfd"]["power"], 4);
  EXPECT_EQ(wide["cfd"]["softplus"], 0.02);
  EXPECT_EQ(wide["cfd"]["capped"], 5);
  EXPECT_NE(diffmj(run + " --csv --cfd 0.5 --cfd-max-contacts 3").err.find("max_contacts"),
            std::string::npos);
  // of geoms and pairs
  const Json none = json(run + " --cfd 0"),
             geom = json(run + " --cfd 0 --cfd-geom 'm_ss=0.3 0 0.01'"),
             pair = json(run + " --cfd 0 --cfd-pair 'm_ss,f_sphere=0.3'");
  EXPECT_EQ(geom["cfd"]["geoms"]["m_ss"]["width"], 0.3);
  EXPECT_NE(none["gradient"]["qpos"], geom["gradient"]["qpos"]);
  EXPECT_NE(none["gradient"]["qpos"], pair["gradient"]["qpos"]);
  // and forward, which is another motion
  EXPECT_NE(json(run + " --cfd 0.3 --cfd-forward")["loss"], plain["loss"]);
}

TEST_F(CliTest, ContactsFromDistanceErrors) {
  const std::string run = "grad " + zoo("contact_pairs") + " --key test --nstep 5 ";
  expect_error(run + "--cfd -1", 2, "width is -1");
  expect_error(run + "--cfd '1 2 3 4 5 6 7'", 2, "7 numbers");
  expect_error(run + "--cfd wide", 2, "'wide' is not a number");
  expect_error(run + "--cfd-forward", 2, "without --cfd");
  expect_error(run + "--cfd 1 --cfd-geom a", 2, "expected names");
  expect_error(run + "--cfd 1 --cfd-geom a=1", 2, "no geom 'a'");
  expect_error(run + "--cfd 1 --cfd-pair a=1", 2, "with a comma");
}

}  // namespace
}  // namespace diffmj::cli
