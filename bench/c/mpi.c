/* The rows of the bench that are MPI's, between two ranks of one job ("native") or two jobs of one rank ("joined").
 *   mpi native - - SAMPLES SLICE_MS LARGEST SECTION...
 *   mpi joined OWN_NAME OTHER_NAME SAMPLES SLICE_MS LARGEST SECTION...      (the first name in the alphabet is side 0)
 */
#include "bench.h"
#include "side.h"
#include "transfer.h"
#include "matching.h"
#include "overlap.h"

static const struct {
    const char *name;
    void (*run)(void);
} sections[] = {
    {"pingpong", pingpong}, {"sizes", all_sizes},   {"short", short_pingpong}, {"rate", rate},
    {"vector", vector},     {"struct", structure},  {"matching", matching},    {"overlap", overlap},
};

int main(int argc, char **argv)
{
    if (argc < 8) fail("arguments: native|joined OWN OTHER SAMPLES SLICE_MS LARGEST SECTION...");
    settings(argv + 4);
    connect_sides(&argc, &argv, !strcmp(argv[1], "joined"), argv[2], argv[3]);
    for (int i = 7; i < argc; ++i) {
        size_t s = 0;
        while (s < sizeof sections / sizeof sections[0] && strcmp(sections[s].name, argv[i])) ++s;
        if (s == sizeof sections / sizeof sections[0]) fail("no such section");
        sections[s].run();
    }
    print_lines();
    disconnect_sides();
    return 0;
}
