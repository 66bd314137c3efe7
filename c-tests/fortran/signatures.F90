! `signatures NAME OTHER`: with MPI_CONNECT_CHECK=types, against the section `to-fortran` of check_types.c: what is sent as
! Fortran's types and received as C's, and the reverse.
program signatures
#define CONNECT
#include "way.h"
  integer :: handle, out, in, n
  integer :: ints(4) = [1, 2, 3, 4]
  real :: reals(4) = [1.0, 2.0, 3.0, 4.0]
  double precision :: doubles(4) = [1d0, 2d0, 3d0, 4d0]
  HANDLE(MPI_Comm) :: inter
  character(len=64) :: name, other

  call MPI_Init(code)
  call get_command_argument(1, name)
  call get_command_argument(2, other)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, code)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, code)
  call MPI_Comm_size(MPI_COMM_WORLD, mine, code)
  call MPI_Conn_register(trim(name), MPI_COMM_WORLD, handle, code)
  call okay('MPI_Conn_register')
  call MPI_Conn_intercomm_create(handle, trim(other), inter, code)
  call okay('MPI_Conn_intercomm_create')
  call MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN, code)

  call MPI_Send(ints, 4, MPI_INTEGER, 0, 0, inter, code)
  call MPI_Send(reals, 4, MPI_REAL, 0, 1, inter, code)
  call MPI_Send(doubles, 4, MPI_DOUBLE_PRECISION, 0, 2, inter, code)
  call MPI_Send(ints, 4, MPI_INTEGER, 0, 3, inter, code)
  call MPI_Send(reals, 4, MPI_REAL, 0, 4, inter, code)
  call MPI_Send(doubles, 4, MPI_DOUBLE_PRECISION, 0, 5, inter, code)
  call okay('MPI_Send')

  ints = 0
  reals = 0
  doubles = 0
  call MPI_Recv(ints, 4, MPI_INTEGER, 0, 0, inter, MPI_STATUS_IGNORE, code)
  call okay('C int into INTEGER')
  call MPI_Recv(reals, 4, MPI_REAL, 0, 1, inter, MPI_STATUS_IGNORE, code)
  call okay('C float into REAL')
  call MPI_Recv(doubles, 4, MPI_DOUBLE_PRECISION, 0, 2, inter, MPI_STATUS_IGNORE, code)
  call okay('C double into DOUBLE PRECISION')
  do n = 1, 4
    call check(ints(n) == n .and. nint(reals(n)) == n .and. nint(doubles(n)) == n, 'values')
  end do
  call MPI_Recv(ints, 4, MPI_INTEGER, 0, 3, inter, MPI_STATUS_IGNORE, code)
  call says('MPI_FLOAT x 4 sent, MPI_INTEGER x 4 received')
  call MPI_Recv(reals, 4, MPI_REAL, 0, 4, inter, MPI_STATUS_IGNORE, code)
  call says('MPI_DOUBLE x 2 sent, MPI_REAL x 4 received')
  call MPI_Recv(doubles, 2, MPI_DOUBLE_PRECISION, 0, 5, inter, MPI_STATUS_IGNORE, code)
  call says('MPI_INT x 4 sent, MPI_DOUBLE_PRECISION x 2 received')

  ! As the other half does behind each section.
  out = 7
  call MPI_Sendrecv(out, 1, MPI_INTEGER, 0, 99, in, 1, MPI_INTEGER, 0, 99, inter, MPI_STATUS_IGNORE, code)
  call okay('MPI_Sendrecv')
  call MPI_Comm_free(inter, code)
  call MPI_Conn_remove(handle, code)
  call finish(trim(name))

contains
#include "check.h"

  ! The call before must have failed for its types, and says which.
  subroutine says(what)
    character(len=*), intent(in) :: what
    character(len=ERROR_STRING) :: text
    integer :: length, ignored
    call refused(MPI_ERR_TYPE, what)
    call MPI_Error_string(code, text, length, ignored)
    call check(index(text(:length), what) > 0, text(:length))
  end subroutine says
end program signatures
