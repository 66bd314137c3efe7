/* A transfer beside work: what it adds to the one who works, and when the other has it. For mpi.c. */
#ifndef OVERLAP_H
#define OVERLAP_H

enum { LARGE = 8 << 20 };
static const double WORK = 0.05;

static double compute(long rounds)
{
    volatile double value = 1;
    double start = now();
    for (long i = 0; i < rounds; ++i) value = value * 1.0000001 + 1e-9;
    return now() - start;
}

/* Rounds of `compute` that last as long as the work. */
static long rounds_of_work(void)
{
    long rounds = 100000;
    double best = compute(rounds);
    for (int i = 0; i < 20; ++i) {
        double took = compute(rounds);
        if (took < best) best = took;
    }
    return (long)((double)rounds * WORK / best);
}

/* Side 0 works; it sends or receives. `added` is what its time grows by, `there` when side 1 is done. */
static void beside(int sends, long rounds, double *added, double *there)
{
    MPI_Request request;
    meet();
    if (channel.side) {
        double start = now(), took;
        if (sends)
            MPI_Recv(incoming, LARGE, MPI_BYTE, other, TAG, comm, MPI_STATUS_IGNORE);
        else
            MPI_Send(outgoing, LARGE, MPI_BYTE, other, TAG, comm);
        took = now() - start;
        mpi_send(&took, sizeof took);
        return;
    }
    double start = now();
    if (sends)
        MPI_Isend(outgoing, LARGE, MPI_BYTE, other, TAG, comm, &request);
    else
        MPI_Irecv(incoming, LARGE, MPI_BYTE, other, TAG, comm, &request);
    if (rounds) compute(rounds);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    *added = now() - start;
    mpi_recv(there, sizeof *there);
    *there *= 1e6;
    if (rounds) *added -= compute(rounds);
    *added *= 1e6;
}

static void overlap(void)
{
    outgoing = memory(LARGE);
    incoming = memory(LARGE);
    long rounds = channel.side ? 1 : rounds_of_work();
    for (int sends = 1; sends >= 0; --sends)
        for (int works = 0; works < 2; ++works) {
            double added[MOST_SAMPLES], there[MOST_SAMPLES];
            char row[64];
            const char *who = sends ? "sender" : "receiver";
            for (int s = -1; s < samples; ++s) /* the first one warms up */
                beside(sends, works ? rounds : 0, &added[s < 0 ? 0 : s], &there[s < 0 ? 0 : s]);
            if (channel.side) continue;
            snprintf(row, sizeof row, works ? "overlap: added to a busy %s" : "overlap: alone, %s's time", who);
            report(row, LARGE, "us", added, samples);
            snprintf(row, sizeof row, works ? "overlap: other side done, %s busy" : "overlap: alone, beside a %s", who);
            report(row, LARGE, "us", there, samples);
        }
}

#endif
