! Instructions of native calls in Fortran, one process; beside it the partner of cost.c.
program cost
#include "way.h"
  integer, parameter :: N = 2000, MANY = 64
  integer :: word = 0, in = 0, several(MANY), request
  call MPI_Init(code)
  call loops()
  call cost_join()
  call loops()
  call cost_part()
  call MPI_Finalize(code)
contains
! The first ones find what is called.
#define AGAIN(name) do times = N, 2 * N, N; do i = -9, times; if (i == 1) call cost_begin(name, times)
#define ENOUGH end do; call cost_end(); end do

  subroutine loops()
    integer :: times, i
    several = MPI_REQUEST_NULL
    request = MPI_REQUEST_NULL
    AGAIN('Comm_rank')
      call MPI_Comm_rank(MPI_COMM_WORLD, word, code)
    ENOUGH
    AGAIN('Send')
      call MPI_Send(word, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, code)
    ENOUGH
    AGAIN('Recv')
      call MPI_Recv(in, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, code)
    ENOUGH
    AGAIN('Wait')
      call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    ENOUGH
    AGAIN('Waitall')
      call MPI_Waitall(MANY, several, MPI_STATUSES_IGNORE, code)
    ENOUGH
    AGAIN('Allreduce')
      call MPI_Allreduce(word, in, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
    ENOUGH
    ! It is ended too, without being counted.
    AGAIN('Isend')
      call MPI_Isend(word, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, request, code)
      call cost_pause()
      call MPI_Wait(request, MPI_STATUS_IGNORE, code)
      call cost_pause()
    ENOUGH
  end subroutine loops
end program cost
