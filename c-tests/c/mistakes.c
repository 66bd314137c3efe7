/* What a user does wrong, one mistake a run, with MPI's default error handler: `mistakes NAME OTHER MISTAKE`. */
#include "kit.h"

#include <signal.h>

static MPI_Comm inter;

/* Without the library there are ports alone. */
static void join(int handle, const char *name, const char *other)
{
    (void)handle, (void)name, (void)other;
#ifndef KIT_NATIVE
    if (!handle) MPI_Conn_register(name, MPI_COMM_WORLD, &handle);
    MPI_Conn_intercomm_create(handle, other, &inter);
#endif
}

/* One word each way. */
static void swap_words(void)
{
    int out = 1, in = 0;
    MPI_Sendrecv(&out, 1, MPI_INT, 0, 0, &in, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
}

/* As an MPI without this library does it, or with it: a port whose name is in a file. */
static void serve(void)
{
    char name[MPI_MAX_PORT_NAME];
    MPI_Open_port(MPI_INFO_NULL, name);
    kit_write(kit_path("port"), name);
    MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
}

static void visit(void)
{
    char name[MPI_MAX_PORT_NAME + 1] = "";
    kit_await(kit_path("port"));
    FILE *f = fopen(kit_path("port"), "r");
    if (!f || !fgets(name, sizeof name, f)) _exit(1);
    fclose(f);
    kit_write(kit_path("connects"), "");
    MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
}

int main(int argc, char **argv)
{
    const char *mistake = argc > 3 ? argv[3] : "";
    int is = 0, sum, four[4] = {1, 2, 3, 4};
    double doubles[4] = {1, 2, 3, 4};
#define IS(word) (!strcmp(mistake, word) && (is = 1))
    if (IS("early")) join(0, argv[1], argv[2]);
    MPI_Init(&argc, &argv);
    if (IS("serve")) serve();
    if (IS("visit")) visit();
    if (IS("handle")) join(12345678, argv[1], argv[2]);
    if (is) {
        MPI_Finalize();
        return 0;
    }
    join(0, argv[1], argv[2]);
    if (IS("refused")) MPI_Allreduce(four, &sum, 1, MPI_INT, MPI_SUM, inter);
    if (IS("short")) MPI_Recv(four, 1, MPI_INT, 0, 5, inter, MPI_STATUS_IGNORE);
    if (IS("long")) MPI_Send(four, 4, MPI_INT, 0, 5, inter);
    if (IS("doubles")) MPI_Send(doubles, 4, MPI_DOUBLE, 0, 5, inter);
    if (IS("integers")) {
        int eight[8];
        MPI_Recv(eight, 8, MPI_INT, 0, 5, inter, MPI_STATUS_IGNORE);
    }
    if (IS("rank")) MPI_Send(four, 1, MPI_INT, 77, 0, inter);
    if (IS("dies")) raise(SIGKILL);
    if (IS("stays")) {
        kit_write(kit_path("joined"), "");
        kit_await(kit_path("let-go"));
    }
    /* What the other side of a mistake does: it waits for a word that never comes. */
    if (IS("waits")) MPI_Recv(four, 1, MPI_INT, 0, 9, inter, MPI_STATUS_IGNORE);
    if (!is || IS("stays")) swap_words();
    MPI_Comm_free(&inter);
    MPI_Finalize();
    return 0;
}
