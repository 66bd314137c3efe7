/* For programs that meet at ports of MPI's own: how they begin, and tell each other of a port. */
#ifndef PORTS_H
#define PORTS_H

#include "kit.h"

/* Room for any port name and what a program may put behind it. */
enum { PORT_ROOM = MPI_MAX_PORT_NAME + 1 };

/* A call that must fail for the port that it was given; LAM has no class for that. */
#ifdef LAM_MPI
#define REFUSED_PORT(call) CHECK((call) != MPI_SUCCESS)
#else
#define REFUSED_PORT(call) REFUSED(call, MPI_ERR_PORT)
#endif

/* Errors are returned, whichever communicator the MPI reports them on. */
UNUSED static void ports_begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
}

/* What this process is about to do, for whoever finds it hanging. */
UNUSED static void step(const char *what)
{
    printf("STEP %d %s\n", kit_rank, what);
    fflush(stdout);
}

/* Gives a port name to the other job, by a text file. */
UNUSED static void port_tell(const char *path, const char *port)
{
    char line[PORT_ROOM + 1];
    snprintf(line, sizeof line, "%s\n", port);
    kit_write(path, line);
}

/* Waits for that file. `line` is as fgets leaves it. */
UNUSED static void port_hear_line(const char *path, char line[PORT_ROOM])
{
    kit_await(path);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, PORT_ROOM, f)) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    fclose(f);
}

UNUSED static void port_hear(const char *path, char line[PORT_ROOM])
{
    port_hear_line(path, line);
    line[strcspn(line, "\n")] = 0;
}

#endif
