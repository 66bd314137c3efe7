/* Heat in a plate: Jacobi steps on a grid of WIDTH x HEIGHT cells.
 *
 *     plate whole OUT            the whole plate, one program
 *     plate left OUT             its left half; swaps its edge column with the other program every step
 *     plate right OUT            its right half
 *     plate left OUT FOLDER N    with a checkpoint in FOLDER every N steps; started again, it goes on from there
 *
 * Each program is parallel by itself: its ranks share its rows. A cell's new value is made from the same four old ones
 * by the same operations in the same order whoever computes it, so the halves give the whole to the last bit.
 * Rank 0 writes the final temperatures to OUT, row by row, and behind them which MPI it has. */
#include <mpi.h>
#ifdef COUPLED
#include <mpi_connect.h>
#endif
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef STEPS
#define STEPS 4000
#endif
enum { WIDTH = 600, HEIGHT = 400, REPORT = STEPS / 8 };

/* Temperatures that are held: discs, hot and cold. One lies across the seam. */
static const struct { double x, y, radius, value; } discs[] = {
    {95, 110, 26, 1.00}, {205, 290, 34, 0.05}, {300, 150, 30, 0.95}, {330, 335, 18, 0.75},
    {420, 90, 22, 0.00}, {505, 255, 38, 0.85}, {120, 345, 14, 0.60}, {555, 60, 16, 0.55},
};

/* Where the plate starts, and where `held` says so, stays. */
static double start(int x, int y, int *held)
{
    *held = x == 0 || y == 0 || x == WIDTH - 1 || y == HEIGHT - 1;
    for (size_t i = 0; i < sizeof discs / sizeof discs[0]; ++i) {
        double dx = x - discs[i].x, dy = y - discs[i].y;
        if (dx * dx + dy * dy <= discs[i].radius * discs[i].radius) {
            *held = 1;
            return discs[i].value;
        }
    }
    return 0.25 + 0.1 * (double)x / WIDTH + 0.1 * (double)y / HEIGHT;
}

#ifdef COUPLED
/* What a rank goes on from, in a file of its own for each label. The program keeps the files of all labels that
 * `mpi-connect checkpoint ls FOLDER` lists, and of later ones. */
enum { ROOM = 4096 };

static void state_file(char path[ROOM], const char *folder, const char *part, int rank, const char *label)
{
    if (snprintf(path, ROOM, "%s/%s-%d-%s.state", folder, part, rank, label) >= ROOM) {
        fprintf(stderr, "plate: the name of the folder is too long\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void lost(const char *path)
{
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Written aside, brought to the disk, then renamed: whenever the program is killed, a file with this name is whole. */
static void write_state(const char *folder, const char *part, int rank, const char *label, int step, const double *cells,
                        size_t count)
{
    char path[ROOM], aside[ROOM + 8];
    state_file(path, folder, part, rank, label);
    snprintf(aside, sizeof aside, "%s.part", path);
    FILE *out = fopen(aside, "wb");
    if (!out || fwrite(&step, sizeof step, 1, out) != 1 || fwrite(cells, sizeof *cells, count, out) != count ||
        fflush(out) || fsync(fileno(out)) || fclose(out) || rename(aside, path))
        lost(path);
    int names = open(folder, O_RDONLY);
    if (names < 0 || fsync(names) || close(names)) lost(folder);
}

static int read_state(const char *folder, const char *part, int rank, const char *label, double *cells, size_t count)
{
    char path[ROOM];
    int step;
    state_file(path, folder, part, rank, label);
    FILE *in = fopen(path, "rb");
    if (!in || fread(&step, sizeof step, 1, in) != 1 || fread(cells, sizeof *cells, count, in) != count || fclose(in))
        lost(path);
    return step;
}
#endif

#define CELL(grid, row, column) (grid)[(size_t)(row) * (size_t)stride + (size_t)(column)]

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int me, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *part = argc == 3 || argc == 5 ? argv[1] : "";
    int left = !strcmp(part, "left"), right = !strcmp(part, "right");
    if (!left && !right && (strcmp(part, "whole") || argc == 5)) {
        fprintf(stderr, "plate whole|left|right OUT, or plate left|right OUT FOLDER STEPS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    /* My columns and rows, with a rim of one cell around them. */
    int first_column = right ? WIDTH / 2 : 0, columns = left || right ? WIDTH / 2 : WIDTH;
    int first_row = HEIGHT * me / size, rows = HEIGHT * (me + 1) / size - first_row;
    int stride = columns + 2;
    size_t cells = (size_t)(rows + 2) * (size_t)stride;
    double *old = calloc(cells, sizeof *old), *new = calloc(cells, sizeof *new);
    char *held = calloc(cells, 1);
    if (!old || !new || !held) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int r = 1; r <= rows; ++r)
        for (int c = 1; c <= columns; ++c) {
            int is_held;
            double value = start(first_column + c - 1, first_row + r - 1, &is_held);
            CELL(old, r, c) = CELL(new, r, c) = value;
            CELL(held, r, c) = (char)is_held;
        }

    int above = me > 0 ? me - 1 : MPI_PROC_NULL, below = me < size - 1 ? me + 1 : MPI_PROC_NULL;
    int begin = 0;
#ifdef COUPLED
    /* The other program: its rank of my number has the rows beside mine. */
    int handle, others, restarted = 0;
    MPI_Comm other;
    MPI_Datatype column;
    MPI_Conn_register(part, MPI_COMM_WORLD, &handle);
    const char *folder = argc == 5 ? argv[3] : NULL;
    int every = argc == 5 ? atoi(argv[4]) : STEPS;
    if (every < 1) MPI_Abort(MPI_COMM_WORLD, 2);
    char label[MPI_CONN_MAX_LABEL];
    if (folder) MPI_Conn_restart(handle, folder, label, 1, &other, &restarted);
    if (restarted) {
        begin = read_state(folder, part, me, label, old, cells);
        if (me == 0) printf("%s half: goes on from %s\n", part, label), fflush(stdout);
    } else
        MPI_Conn_intercomm_create(handle, left ? "right" : "left", &other);
    MPI_Comm_remote_size(other, &others);
    if (others != size) {
        fprintf(stderr, "plate: the halves have %d and %d ranks\n", size, others);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Type_vector(rows, 1, stride, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    int edge = left ? columns : 1, rim = left ? columns + 1 : 0;
#endif

    for (int step = begin + 1; step <= STEPS; ++step) {
        MPI_Sendrecv(&CELL(old, 1, 1), columns, MPI_DOUBLE, above, 1, &CELL(old, rows + 1, 1), columns, MPI_DOUBLE, below,
                     1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(&CELL(old, rows, 1), columns, MPI_DOUBLE, below, 2, &CELL(old, 0, 1), columns, MPI_DOUBLE, above, 2,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#ifdef COUPLED
        MPI_Sendrecv(&CELL(old, 1, edge), 1, column, me, 3, &CELL(old, 1, rim), 1, column, me, 3, other,
                     MPI_STATUS_IGNORE);
#endif
        double change = 0;
        for (int r = 1; r <= rows; ++r)
            for (int c = 1; c <= columns; ++c) {
                if (CELL(held, r, c)) continue;
                double value = 0.25 * (((CELL(old, r - 1, c) + CELL(old, r + 1, c)) + CELL(old, r, c - 1)) +
                                       CELL(old, r, c + 1));
                double moved = fabs(value - CELL(old, r, c));
                if (moved > change) change = moved;
                CELL(new, r, c) = value;
            }
        double *swap = old;
        old = new;
        new = swap;
        if (step % REPORT == 0) {
            double most;
            MPI_Reduce(&change, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
#ifdef COUPLED
            double theirs;
            if (me == 0) {
                MPI_Sendrecv(&most, 1, MPI_DOUBLE, 0, 4, &theirs, 1, MPI_DOUBLE, 0, 4, other, MPI_STATUS_IGNORE);
                if (theirs > most) most = theirs;
            }
#endif
            if (me == 0 && !right) {
                printf("step %5d  residual %.3e\n", step, most);
                fflush(stdout);
            }
        }
#ifdef COUPLED
        /* No message within this program is on its way here. Those between the programs may be: the library has them. */
        if (folder && step % every == 0) {
            snprintf(label, sizeof label, "step-%d", step);
            write_state(folder, part, me, label, step, old, cells);
            MPI_Conn_checkpoint(handle, folder, label);
        }
#endif
    }

    /* Rank 0 writes its own rows, then the others', in order. */
    if (me == 0) {
        FILE *out = fopen(argv[2], "wb");
        double *row = malloc((size_t)columns * sizeof *row);
        int bad = !out || !row;
        for (int rank = 0; rank < size && !bad; ++rank) {
            int n = HEIGHT * (rank + 1) / size - HEIGHT * rank / size;
            for (int r = 1; r <= n && !bad; ++r) {
                double *from = &CELL(old, r, 1);
                if (rank > 0) {
                    from = row;
                    MPI_Recv(row, columns, MPI_DOUBLE, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                }
                bad = fwrite(from, sizeof *from, (size_t)columns, out) != (size_t)columns;
            }
        }
#if MPI_VERSION >= 3
        char version[MPI_MAX_LIBRARY_VERSION_STRING];
        int length;
        MPI_Get_library_version(version, &length);
#else
        const char *version = "LAM/MPI";
#endif
        if (!bad) bad = fputs(version, out) == EOF;
        if (bad || fclose(out)) {
            perror(argv[2]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        free(row);
    } else
        for (int r = 1; r <= rows; ++r) MPI_Send(&CELL(old, r, 1), columns, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD);

#ifdef COUPLED
    MPI_Type_free(&column);
    MPI_Comm_free(&other);
    MPI_Conn_remove(handle);
#endif
    free(old), free(new), free(held);
    MPI_Finalize();
    return 0;
}
