/* Both sides send before they receive: `head_on NAME OTHER SIDE SECTION...`, with as many ranks on either side. MPI does not promise that this
 * works; here it does for standard sends of up to 256 KiB over shared memory, which could all go eager, as far as credit goes (docs/protocol.md). */
#include "sides.h"

enum { ROUNDS = 200, MOST = 256 << 10 };

static char *out, *in;

static void meet(void)
{
    char word = 0, other;
    OK(MPI_Sendrecv(&word, 1, MPI_CHAR, me, ROUNDS, &other, 1, MPI_CHAR, me, ROUNDS, inter, MPI_STATUS_IGNORE));
}

static void exchange(int bytes)
{
    for (int i = 0; i < ROUNDS; ++i) {
        memset(out, i, (size_t)bytes);
        OK(MPI_Send(out, bytes, MPI_CHAR, me, i, inter));
        OK(MPI_Recv(in, bytes, MPI_CHAR, me, i, inter, MPI_STATUS_IGNORE));
        CHECK(!memcmp(in, out, (size_t)bytes), "%d bytes, round %d", bytes, i);
    }
}

static void one(void)
{
    static const int sizes[] = {16 << 10, 32 << 10, 64 << 10, 100000, 128 << 10, MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) exchange(sizes[s]);
}

/* One after another, half as many bytes as there is credit for at first. The receives are in the other order. */
static void several(void)
{
    enum { MANY = 8, EACH = 64 << 10 };
    for (int i = 0; i < ROUNDS / 4; ++i) {
        for (int m = 0; m < MANY; ++m) {
            memset(out, i + m, EACH);
            OK(MPI_Send(out, EACH, MPI_CHAR, me, m, inter));
        }
        for (int m = MANY - 1; m >= 0; --m) {
            memset(out, i + m, EACH);
            OK(MPI_Recv(in, EACH, MPI_CHAR, me, m, inter, MPI_STATUS_IGNORE));
            CHECK(!memcmp(in, out, EACH), "round %d, message %d", i, m);
        }
        meet();
    }
}

static const struct kit_section sections[] = {{"one", one}, {"several", several}};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    out = malloc(MOST);
    in = malloc(MOST);
    sides_join(argc, argv);
    sides_run(SECTIONS(sections), argv, meet);
    return sides_end();
}
