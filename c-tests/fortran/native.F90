! A program that knows nothing of other jobs, and uses the sentinels that its MPI has for Fortran.
program native
#include "way.h"
  shown = .true.
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, code)
  call MPI_Comm_size(MPI_COMM_WORLD, mine, code)
  call sentinels()
  call finish('native')
contains
#include "check.h"
end program native
