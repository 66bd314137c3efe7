! Comes first in a program: MPI in one of the three ways in which Fortran can have it, WAY_MPIF, WAY_MPI or WAY_F08, and
! with CONNECT our calls. LAM has the first way alone, and of MPI-2 only a part.
#if defined(WAY_F08)
  use mpi_f08
#ifdef CONNECT
  use mpi_connect_f08
#endif
  implicit none
#define HANDLE(kind) type(kind)
#define STATUS type(MPI_Status)
#define STATUSES(name, n) type(MPI_Status) :: name(n)
#define SOURCE_OF(status) status%MPI_SOURCE
#define TAG_OF(status) status%MPI_TAG
#define NTH(statuses, i) statuses(i)
#else
#if defined(WAY_MPI)
  use mpi
#ifdef CONNECT
  use mpi_connect
#endif
  implicit none
#else
  implicit none
  include 'mpif.h'
#ifdef CONNECT
  include 'mpif_connect.h'
#endif
#endif
#define HANDLE(kind) integer
#define STATUS integer, dimension(MPI_STATUS_SIZE)
#define STATUSES(name, n) integer :: name(MPI_STATUS_SIZE, n)
#define SOURCE_OF(status) status(MPI_SOURCE)
#define TAG_OF(status) status(MPI_TAG)
#define NTH(statuses, i) statuses(:, i)
#endif
#ifdef LAM
#define ADDRESS 8
! LAM wants a character more than it says.
#define ERROR_STRING MPI_MAX_ERROR_STRING + 1
#else
#define ADDRESS MPI_ADDRESS_KIND
#define ERROR_STRING MPI_MAX_ERROR_STRING
#endif
  integer :: checks = 0, failures = 0, me, mine, code
  ! What the MPI calls the first request of an array: 1, but 0 by mpi_f08 of MPICH 4.0.
  integer :: first = 1
  logical :: shown = .false.
