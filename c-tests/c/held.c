/* Processes that give up all connections to the other job for a while, and come back.
 *
 *     held MINE THEIRS SIDE HOW
 *
 * Rank r talks to rank r of the other job. HOW is `call` (MPI_Conn_hold, MPI_Conn_resume) or `signal` (that of
 * MPI_CONNECT_HOLD_ON, once for each). The sides take turns at holding; in the end side 0 calls MPI_Finalize while it is held.
 * Functions are called around each hold, and one of them has the process come back at once.
 */
#include "kit.h"
#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>

enum { ROUNDS = 6, LARGE = 3 << 20 };

static int side, by_signal, handle = -1, before = -1, returns;
static _Atomic int holds, calls, ended;
static MPI_Comm other;

/* Sockets that are connected, and shared memory of the library. */
static int connections(void)
{
    int count = 0;
    char line[4096];
    DIR *fds = opendir("/proc/self/fd");
    for (struct dirent *fd; fds && (fd = readdir(fds));) {
        struct sockaddr_storage to;
        socklen_t bytes = sizeof to;
        int number = atoi(fd->d_name);
        count += fd->d_name[0] != '.' && number != dirfd(fds) && !getpeername(number, (struct sockaddr *)&to, &bytes);
    }
    if (fds) closedir(fds);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) count += strstr(line, "memfd:mpi_connect") != NULL;
    if (maps) fclose(maps);
    return count;
}

/* Waits until no connection is left. */
static void look(void)
{
    /* Somebody may dial meanwhile, and is sent away. */
    double begun = kit_ms(), since = begun, now = begun;
    for (; now - since < 30 && now - begun < 20000; now = kit_ms()) {
        if (connections() > before) since = now;
        kit_sleep_ms(1);
    }
    CHECK(now - begun < 20000, "%d connections are left, not %d", connections(), before);
}

/* Two pairs of functions, called as 1 2 3 4: held, held, resuming, resuming. */
static void held_first(void *state)
{
    SAME(++calls % 4, 1);
    ++*(_Atomic int *)state;
    look();
}

static void held_second(void *state)
{
    SAME(++calls % 4, 2);
    CHECK(!state);
    if (returns) OK(MPI_Conn_resume());
}

static void resuming_second(void *state)
{
    SAME(++calls % 4, 3);
    CHECK(!state);
    look();
}

static void resuming_first(void *state)
{
    SAME(++calls % 4, 0);
    SAME(*(_Atomic int *)state, holds);
    ++ended;
}

/* Waits until the functions have been called so often. */
static void await(_Atomic int *count, int wanted)
{
    for (double begun = kit_ms(); *count < wanted && kit_ms() - begun < 20000;) kit_sleep_ms(1);
    SAME(*count, wanted);
}

static void hold(void)
{
    static int number;
    ++number;
    if (by_signal)
        raise(SIGUSR1);
    else
        OK(MPI_Conn_hold());
    if (returns) return await(&ended, number);
    if (by_signal)
        await(&calls, 4 * number - 2);
    else
        SAME(calls, 4 * number - 2);
    look();
}

static void resume(void)
{
    if (by_signal)
        raise(SIGUSR1);
    else
        OK(MPI_Conn_resume());
    if (by_signal)
        await(&ended, holds);
    else
        SAME(ended, holds);
}

static void round_of(int number, char *out, char *in)
{
    int sizes[3] = {8, 70000, LARGE}, flag = 1, holds = number % 2 == side;
    MPI_Request sends[3], receives[3];
    MPI_Status status;
    /* One is on its way before, and is matched only after. */
    OK(MPI_Send(&number, 1, MPI_INT, kit_rank, 100, other));
    if (holds) {
        OK(MPI_Probe(kit_rank, 100, other, &status));
        hold();
        OK(MPI_Iprobe(kit_rank, 100, other, &flag, &status));
        CHECK(flag, "what has come is there");
        OK(MPI_Iprobe(kit_rank, 101, other, &flag, &status));
        CHECK(!flag, "what nobody has sent is not");
    }
    for (int i = 0, at = 0; i < 3; at += sizes[i++]) {
        kit_fill(out, (size_t)sizes[i], (uint64_t)(10 * number + side));
        OK(MPI_Irecv(in + at, sizes[i], MPI_BYTE, kit_rank, i, other, &receives[i]));
        /* A buffer may be written again when its send is over, so each has its own. */
        memcpy(out + LARGE + at, out, (size_t)sizes[i]);
        OK(MPI_Isend(out + LARGE + at, sizes[i], MPI_BYTE, kit_rank, i, other, &sends[i]));
    }
    if (holds) {
        OK(MPI_Testall(3, receives, &flag, MPI_STATUSES_IGNORE));
        CHECK(!flag, "nothing comes while it is held");
        resume();
    }
    OK(MPI_Waitall(3, receives, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(3, sends, MPI_STATUSES_IGNORE));
    for (int i = 0, at = 0; i < 3; at += sizes[i++]) HOLDS(in + at, (size_t)sizes[i], (uint64_t)(10 * number + 1 - side));
    OK(MPI_Recv(&flag, 1, MPI_INT, kit_rank, 100, other, &status));
    SAME(flag, number);
}

int main(int argc, char **argv)
{
    /* Before anything else is there; either function may be left out. */
    OK(MPI_Conn_on_hold(held_first, resuming_first, (void *)&holds));
    OK(MPI_Conn_on_hold(held_second, resuming_second, NULL));
    OK(MPI_Conn_on_hold(NULL, NULL, NULL));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    if (argc != 5) MPI_Abort(MPI_COMM_WORLD, 2);
    kit_label = argv[1];
    side = atoi(argv[3]);
    by_signal = !strcmp(argv[4], "signal");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* The MPI's own, and the page of our doorbells. */
    before = connections() + 1;
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    char *out = kit_alloc(3 * LARGE), *in = kit_alloc(2 * LARGE);
    for (int number = 0; number < ROUNDS; ++number) round_of(number, out, in);
    /* A tool makes an image while it is held, and has it come back from there. */
    for (int turn = 0; turn < 2; ++turn) {
        returns = 1;
        if (turn == side) hold();
        returns = 0;
        OK(MPI_Sendrecv(out, 8, MPI_BYTE, kit_rank, 8, in, 8, MPI_BYTE, kit_rank, 8, other, MPI_STATUS_IGNORE));
    }
    /* The last word of side 1 comes when it comes; side 0 ends while it is held. */
    if (side == 1) {
        OK(MPI_Recv(in, 8, MPI_BYTE, kit_rank, 7, other, MPI_STATUS_IGNORE));
        HOLDS(in, 8, 77);
    } else {
        kit_fill(out, 8, 77);
        OK(MPI_Send(out, 8, MPI_BYTE, kit_rank, 7, other));
        hold();
    }
    OK(MPI_Conn_remove(handle));
    OK(MPI_Comm_free(&other));
    int failed = kit_end();
    MPI_Finalize();
    /* Who was told of the hold has been told of its end. */
    failed |= ended != holds;
    free(out);
    free(in);
    return failed;
}
