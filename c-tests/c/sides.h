/* What programs have in common that are run as two halves, `PROGRAM NAME OTHER SIDE SECTION...`: how they join, go through
 * the same sections in the same order, and end. SIDE is 0 for one half and 1 for the other. */
#ifndef SIDES_H
#define SIDES_H

#include "kit.h"

static MPI_Comm inter = MPI_COMM_NULL;
static int handle, me, mine, theirs, side;
static const char *my_name, *their_name;

/* Set by a section after which one half leaves: nothing more is said to it, and it frees nothing. */
UNUSED static int parting;

#define SECTIONS(all) (all), sizeof(all) / sizeof((all)[0])

/* After MPI_Init: registers, and joins the other half. */
UNUSED static void sides_join(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "%s NAME OTHER SIDE SECTION...\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    kit_label = my_name = argv[1];
    their_name = argv[2];
    side = atoi(argv[3]);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); /* where calls without a communicator report */
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &mine);
    kit_rank = me;
    OK(MPI_Conn_register(my_name, MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, their_name, &inter));
    CHECK(inter != MPI_COMM_NULL && inter != MPI_COMM_WORLD);
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Comm_remote_size(inter, &theirs));
}

/* Runs the sections of the command line, and `meet` behind each: then both halves have come there. A section without a
 * function is of calls that this MPI does not have. */
UNUSED static void sides_run(const struct kit_section *all, size_t count, char **argv, void (*meet)(void))
{
    for (char **name = argv + 4; *name; ++name) {
        const struct kit_section *section = kit_begin(all, count, *name);
        long before[2] = {kit_checks, kit_failures}, here[2], sum[2];
        double start = kit_ms();
        if (section->run)
            section->run();
        else if (me == 0)
            printf("LACKING %s\n", *name);
        if (!parting) meet();
        here[0] = kit_checks - before[0];
        here[1] = kit_failures - before[1];
        OK(MPI_Reduce(here, sum, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD));
        if (me == 0) {
            printf("SECTION %s checks %ld failures %ld ms %.0f\n", *name, sum[0], sum[1], kit_ms() - start);
            fflush(stdout);
        }
    }
}

/* Ends what was joined, and gives what `main` returns. */
UNUSED static int sides_end(void)
{
    if (!parting || side == 0) {
        OK(MPI_Comm_free(&inter));
        OK(MPI_Conn_remove(handle));
    }
    int result = kit_end();
    MPI_Finalize();
    return result;
}

#endif
