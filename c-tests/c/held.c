/* Processes that give up all connections to the other job for a while, and come back.
 *
 *     held MINE THEIRS SIDE HOW
 *
 * Rank r talks to rank r of the other job. HOW is `call` (MPI_Conn_hold, MPI_Conn_resume) or `signal` (that of
 * MPI_CONNECT_HOLD_ON, once for each). The sides take turns at holding; in the end side 0 calls MPI_Finalize while it is held.
 */
#include "kit.h"
#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>

enum { ROUNDS = 6, LARGE = 3 << 20 };

static int side, by_signal, handle = -1;
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

static void hold(int before)
{
    if (by_signal)
        raise(SIGUSR1);
    else
        OK(MPI_Conn_hold());
    /* Somebody may dial meanwhile, and is sent away. */
    double begun = kit_ms(), since = begun, now = begun;
    for (; now - since < 30 && now - begun < 20000; now = kit_ms()) {
        if (connections() > before) since = now;
        kit_sleep_ms(1);
    }
    CHECK(now - begun < 20000, "%d connections are left, not %d", connections(), before);
}

static void resume(void)
{
    if (by_signal)
        raise(SIGUSR1);
    else
        OK(MPI_Conn_resume());
}

static void round_of(int number, char *out, char *in, int before)
{
    int sizes[3] = {8, 70000, LARGE}, flag = 1, holds = number % 2 == side;
    MPI_Request sends[3], receives[3];
    MPI_Status status;
    /* One is on its way before, and is matched only after. */
    OK(MPI_Send(&number, 1, MPI_INT, kit_rank, 100, other));
    if (holds) {
        OK(MPI_Probe(kit_rank, 100, other, &status));
        hold(before);
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
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    if (argc != 5) MPI_Abort(MPI_COMM_WORLD, 2);
    kit_label = argv[1];
    side = atoi(argv[3]);
    by_signal = !strcmp(argv[4], "signal");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* The MPI's own, and the page of our doorbells. */
    int before = connections() + 1;
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    char *out = kit_alloc(3 * LARGE), *in = kit_alloc(2 * LARGE);
    for (int number = 0; number < ROUNDS; ++number) round_of(number, out, in, before);
    /* The last word of side 1 comes when it comes; side 0 ends while it is held. */
    if (side == 1) {
        OK(MPI_Recv(in, 8, MPI_BYTE, kit_rank, 7, other, MPI_STATUS_IGNORE));
        HOLDS(in, 8, 77);
    } else {
        kit_fill(out, 8, 77);
        OK(MPI_Send(out, 8, MPI_BYTE, kit_rank, 7, other));
        hold(before);
    }
    OK(MPI_Conn_remove(handle));
    OK(MPI_Comm_free(&other));
    int failed = kit_end();
    MPI_Finalize();
    free(out);
    free(in);
    return failed;
}
