/* A job that registers its name and stays until it is told to go: for tests of what starts jobs and ends them.
 *
 *     launched MINE FOLDER
 *
 * Each rank reads standard input to its end, which is empty; tells that it is there, and of each signal that reaches it. SIGTERM, and a file FOLDER/end, end it well, and a file
 * FOLDER/fail-MINE by MPI_Abort with 7; a file FOLDER/deaf-MINE makes it deaf for SIGTERM. It ends without a line end.
 */
#include "kit.h"
#include <signal.h>

static volatile sig_atomic_t caught[65];

static void note(int number) { ++caught[number]; }

static int there(const char *folder, const char *what, const char *mine)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", folder, what, mine);
    return access(path, F_OK) == 0;
}

int main(int argc, char **argv)
{
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT};
    int told[65] = {0}, handle = -1, over = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
    const char *mine = argv[1], *folder = argv[2];
    /* Of all ranks: a pipe that nobody ends would keep one here. */
    if (getenv("LAUNCHED") && getchar() != EOF) MPI_Abort(MPI_COMM_WORLD, 3);
    for (int i = 0; i < 4; ++i) signal(signals[i], note);
    OK(MPI_Conn_register(mine, MPI_COMM_WORLD, &handle));
    printf("HERE %s\n", getenv("LAUNCHED") ? getenv("LAUNCHED") : "-");
    fflush(stdout);
    while (!over) {
        for (int i = 0; i < 4; ++i) {
            int number = signals[i];
            if (told[number] == caught[number]) continue;
            told[number] = caught[number];
            printf("SIGNAL %d\n", number);
            fflush(stdout);
            if (number != SIGUSR1 && number != SIGUSR2 && !there(folder, "deaf-", mine)) over = 1;
        }
        if (there(folder, "fail-", mine)) MPI_Abort(MPI_COMM_WORLD, 7);
        if (there(folder, "end", "")) over = 1;
        usleep(2000);
    }
    OK(MPI_Conn_remove(handle));
    MPI_Finalize();
    fprintf(stderr, "to stderr\n");
    printf("GONE");
    return 0;
}
