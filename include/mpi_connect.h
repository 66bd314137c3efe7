/* MPI_Connect: join MPI jobs that were started apart, whatever MPI each runs under.
 *
 * Generated from shim/src/conn/; `make headers` writes it anew. Link with -lmpi_connect before -lmpi, or load the library
 * with LD_PRELOAD (`mpi-connect run` does). */


#ifndef MPI_CONNECT_H
#define MPI_CONNECT_H

#include <mpi.h>

#if defined(__GNUC__)
/* Everything that a program calls may be found in this library: then a linker that leaves out what seems unused would
 * leave out the MPI itself. */
static int (*const mpi_connect_needs_mpi)(int *, int *) __attribute__((used)) = MPI_Get_version;
#endif

/*
 The room for the label of a checkpoint, with its terminator.
 */
#define MPI_CONN_MAX_LABEL 256

/*
 The other process has died, or has finalized: a kind for MPI_Conn_error_class.
 */
#define MPI_CONN_ERR_PEER_GONE 1

/*
 The other job did not come within MPI_CONNECT_TIMEOUT: a kind for MPI_Conn_error_class.
 */
#define MPI_CONN_ERR_TIMEOUT 2

/*
 A job has registered the name: an event of MPI_Conn_notify.
 */
#define MPI_CONN_JOINED 1

/*
 It has given the name back, or finalized: an event of MPI_Conn_notify.
 */
#define MPI_CONN_LEFT 2

/*
 It has died, or cannot be heard any more: an event of MPI_Conn_notify.
 */
#define MPI_CONN_DIED 4

/*
 A function that is called around a hold, with the state that it was registered with.
 */
typedef void (*MPI_Conn_hold_function)(void *state);

/*
 A function that is told of a name: what has become of it (MPI_CONN_JOINED, MPI_CONN_LEFT or MPI_CONN_DIED), the name, and the state
 that it was registered with.
 */
typedef void (*MPI_Conn_notify_function)(int event, const char *name, void *state);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Registers this job, or the part of it that `local_comm` spans, under a name by which other jobs find it.

 Collective over `local_comm`, an intra-communicator; the name of rank 0 counts: 1 to 255 bytes of UTF-8 without
 control characters. `handle` is set on every process. Errors go to the error handler of `local_comm`:
 MPI_ERR_ARG for a bad name or pointer, MPI_ERR_COMM, MPI_ERR_NAME when a live job holds the name or the naming
 service cannot be used, MPI_ERR_OTHER when the program's MPI calls do not pass through this library.
 */
int MPI_Conn_register(const char *name,
                      MPI_Comm local_comm,
                      int *handle);

/*
 Joins the registered job with the job registered as `remote_name`, which makes the matching call.

 Collective over the communicator that the handle was made with. Waits until the other job has made its call: the
 k-th call for a pair of registrations meets the other side's k-th. Waits at most MPI_CONNECT_TIMEOUT seconds
 (default 600). `newintercomm` is then used like any inter-communicator and freed by MPI_Comm_free.
 */
int MPI_Conn_intercomm_create(int handle,
                              const char *remote_name,
                              MPI_Comm *newintercomm);

/*
 Gives the name back. Inter-communicators made with the handle stay.

 Collective over the communicator that the handle was made with.
 */
int MPI_Conn_remove(int handle);

/*
 Makes a checkpoint of what concerns messages between this job and others. The program writes its own state beside it.

 Collective over the communicator that the handle was made with; MPI_Conn_restart was called with the handle. Each
 job calls it when it wants to, and waits for no other job. The folder and the label of rank 0 count. The label has up
 to 255 bytes of UTF-8 without control characters, and tells at a restart which of the program's own files belong to
 it. Images are written in the background: MPI_ERR_OTHER at the next call when one cannot be written.

 The call is a cut in what a job does. At a restart each job goes on from a cut of its own, here `x` and `o`:

 ```text
                  early          late
 air    -----x------1--------------2--------->   x: the cut of air
                     \            /
                      \          /
 ocean  ---------------1--------2-------o---->   o: the cut of ocean
 ```

 Message 1 is early: ocean has received it before its cut, and air sends it behind its own. After a restart air's
 program sends it once more, and the library does not deliver it twice. Message 2 is late: ocean has sent it before
 its cut, and air receives it behind its own. The images have it: air's program receives it after a restart, and
 ocean's does not send it again.

 So the program owes this. From its cut until the other jobs have made theirs it is deterministic, but for what tests,
 probes and receives from any source find, which the library notes and gives again. It writes its own state where it
 makes the call, with no message to or from another job between. The messages inside its job are over at the call. A
 send that is pending at the call counts as sent; a receive that is pending counts as not posted, and is posted again.
 */
int MPI_Conn_checkpoint(int handle,
                        const char *directory,
                        const char *label);

/*
 Goes on from the newest line of checkpoints that all jobs of it have, under any MPI, with as many ranks: gives back
 its label, and the inter-communicators in the order of their making, with the messages that were on their way.

 Collective over the communicator that the handle was made with; called behind MPI_Conn_register and before any other
 call with the handle. Without a checkpoint, as in a first run, `count` is 0 and `label` is empty. `label` has room
 for MPI_CONN_MAX_LABEL bytes, `comms` for `max` inter-communicators. Waits at most MPI_CONNECT_TIMEOUT seconds for
 the other jobs of the line, which restart too.
 */
int MPI_Conn_restart(int handle,
                     const char *directory,
                     char *label,
                     int max,
                     MPI_Comm *comms,
                     int *count);

/*
 The MPI error class of one of our own kinds of error, to compare with what MPI_Error_class gives. Local. The
 classes are made at run time, so they may differ between processes.
 */
int MPI_Conn_error_class(int which,
                         int *errorclass);

/*
 Fetches a file of another job: collective over the local group of `comm`, an inter-communicator to that job, whose
 processes make no call. The paths of rank 0 count.

 `path` names a file below a folder that the other job has opened to others (`MPI_CONNECT_FILES`). `local_path` is
 where it goes: a file, which is replaced, or a folder. The file has its name only when all of it is on the disk.
 When the call returns, every process may read it where rank 0 sees it. Messages go on meanwhile.

 The file moves in chunks with checksums, over a connection of each pair of processes. When one breaks another one is made,
 which goes on with the next chunk. Errors go to the error handler of `comm`: MPI_ERR_NO_SUCH_FILE, MPI_ERR_ACCESS
 when the other job has not opened a folder with it, MPI_ERR_NO_SPACE, MPI_ERR_BAD_FILE when it is no file,
 MPI_ERR_FILE_IN_USE when it changes meanwhile, MPI_ERR_IO, the classes of MPI_CONN_ERR_PEER_GONE, and of
 MPI_CONN_ERR_TIMEOUT when nothing moves for MPI_CONNECT_TIMEOUT seconds.
 */
int MPI_Conn_getfile(MPI_Comm comm,
                     const char *path,
                     const char *local_path);

/*
 Puts a file into a folder of another job: as MPI_Conn_getfile, the other way. `path` names a file below a folder that
 the other job has opened for writing, which is replaced. MPI_ERR_READ_ONLY when the folder is open for reading
 alone.
 */
int MPI_Conn_putfile(MPI_Comm comm,
                     const char *local_path,
                     const char *path);

/*
 Gives up all connections of this process to other jobs, until MPI_Conn_resume: for whoever moves its virtual machine,
 makes an image of the process, or takes a device away.

 Local. Returns when no connection, shared memory or queue pair of another job is left, which takes 10 s at most. Sends
 and receives may be called meanwhile: nothing fails, and what needs the other job waits. The other processes are told,
 and wait too, for an hour at most. The functions of MPI_Conn_on_hold are called. A process that calls MPI_Finalize
 comes back first. Any thread may call it between MPI_Init and MPI_Finalize. MPI_ERR_OTHER when the library cannot be
 started.
 */
int MPI_Conn_hold(void);

/*
 Connects again after MPI_Conn_hold, also if this process has another address now. Local; returns at once, or when the
 functions of MPI_Conn_on_hold have been called. Any thread may call it.
 */
int MPI_Conn_resume(void);

/*
 Has functions called around each hold of this process, whoever holds it: the program, an operator, or a signal. For tools
 that make an image of the process, or move it.

 `held` is called when nothing is left that leads to other jobs, before the hold counts as done; `resuming` before the
 process connects again. Either may be null. A pair whose `held` was due has its `resuming` called in the end. A thread of
 the library calls them, one after the other: `held` in the order of registration, `resuming` in the reverse. It has the
 signal mask of the thread that registered them. They may call MPI_Conn_hold and MPI_Conn_resume, which are done when all
 have returned, and no other function of MPI unless the level of threads is MPI_THREAD_MULTIPLE. All other threads go on
 meanwhile.

 Local. May be called at any time, before MPI_Init too, and counts from the next hold on until the process ends. Returns
 MPI_SUCCESS.
 */
int MPI_Conn_on_hold(MPI_Conn_hold_function held,
                     MPI_Conn_hold_function resuming,
                     void *state);

/*
 Has a function called when a job registers a name like `pattern`, gives it back, or dies.

 The names are those of this process's run, where MPI_Conn_register looks for them; also this job's own. They begin as `pattern`
 does or, with a `*` in it, are like it from end to end; a null pointer means all. `events` is the sum of those that are wanted:
 MPI_CONN_JOINED, MPI_CONN_LEFT, MPI_CONN_DIED. Jobs that are there already are told of as joined. A death in a folder is noticed
 within some 2 s, and on another host, or of a server's client, when its lease is over.

 A thread of the library calls the function, of all registrations one after the other, with all signals blocked. The name is valid
 until the function returns. It may call MPI_Conn_notify, also to cancel itself MPI_Conn_notify_cancel, and no other function of MPI
 unless the level of threads is MPI_THREAD_MULTIPLE; then too it calls nothing collective that the program calls at the same time.

 Local: each process that wants to be told calls it, between MPI_Init and MPI_Finalize, which cancels what is left. `notice` is for
 MPI_Conn_notify_cancel. MPI_ERR_ARG for a bad pattern, events or pointer, MPI_ERR_NAME when the naming service cannot be used,
 MPI_ERR_OTHER for more than 64 registrations at a time.
 */
int MPI_Conn_notify(const char *pattern,
                    int events,
                    MPI_Conn_notify_function function,
                    void *state,
                    int *notice);

/*
 Ends a registration of MPI_Conn_notify: when it returns, its function does not run and is not called any more. It waits for a
 function that runs, also of another registration, unless it is called by that.

 Local. MPI_ERR_ARG for a number that was not given out, or was cancelled.
 */
int MPI_Conn_notify_cancel(int notice);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MPI_CONNECT_H */
