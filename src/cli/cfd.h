// Contacts from distance on the command line.
#ifndef DIFFMJ_CLI_CFD_H_
#define DIFFMJ_CLI_CFD_H_

#include "cli.h"
#include "output.h"

namespace diffmj::cli {

void add_cfd_options(CLI::App& command, CfdArguments& arguments);

// None without --cfd. Throws InputError for what cannot be read, or options of it without it.
std::optional<Cfd> read_cfd_options(const CfdArguments& arguments);

// As they were asked for.
Json json_cfd(const Cfd& cfd);

// A notice on stderr if there were more contacts than max_contacts.
void report_cfd(const CfdCounts& counts);

}  // namespace diffmj::cli

#endif  // DIFFMJ_CLI_CFD_H_
