! `ports server|client SERVICE`: two jobs meet at a port of MPI's own, published under a name. Strings go in as Fortran has
! them, blank-padded or cut to their length, and come back with nothing behind them but blanks.
program ports
#include "way.h"
  integer, parameter :: rounds = 3
  logical :: serves
  integer :: round, size, out, in, keyval
  integer(kind=ADDRESS) :: value
  logical :: there
  HANDLE(MPI_Comm) :: inter
  character(len=10) :: role
  character(len=400) :: service
  character(len=MPI_MAX_PORT_NAME) :: port
  ! Longer than any name.
  character(len=MPI_MAX_PORT_NAME + 60) :: roomy

  call MPI_Init(code)
  call get_command_argument(1, role)
  call get_command_argument(2, service)
  serves = role == 'server'
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, code)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, code)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, code)
  call MPI_Comm_size(MPI_COMM_WORLD, mine, code)

  port = ' '
  roomy = ' '
  if (me == 0) then
    if (serves) then
      call opened()
    else
      call looked_up()
    end if
  end if
  value = 4711
#ifndef LAM
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, keyval, value, code)
  call okay('MPI_Comm_create_keyval')
#endif
  do round = 1, rounds
    call meet()
#ifndef LAM
    call MPI_Comm_get_attr(inter, keyval, value, there, code)
    call okay('MPI_Comm_get_attr')
    call check(.not. there, 'no attribute is on a new inter-communicator')
    call MPI_Comm_set_attr(inter, keyval, value, code)
    call okay('MPI_Comm_set_attr')
#endif
    call MPI_Comm_remote_size(inter, size, code)
    call okay('MPI_Comm_remote_size')
    call same(size, mine, 'MPI_Comm_remote_size')
    out = 100 * round + me
    in = -1
    call MPI_Sendrecv(out, 1, MPI_INTEGER, me, 1, in, 1, MPI_INTEGER, me, 1, inter, MPI_STATUS_IGNORE, code)
    call okay('MPI_Sendrecv')
    call same(in, out, 'a message')
    call broadcast()
    call MPI_Comm_disconnect(inter, code)
    call okay('MPI_Comm_disconnect')
    call check(inter == MPI_COMM_NULL, 'MPI_COMM_NULL')
  end do
  if (me == 0 .and. serves) call closed()
  call finish(trim(role))

contains
#include "check.h"

  ! Only blanks from the first one on, and something before.
  subroutine padded(text, what)
    character(len=*), intent(in) :: text, what
    integer :: n
    n = index(text, ' ')
    call check(n /= 1, what // ' is not empty')
    if (n > 0) call check(text(n:) == ' ', what // ' ends in blanks')
    call check(index(text, char(0)) == 0, what // ' has no zero in it')
  end subroutine padded

  subroutine opened()
    port = repeat('x', len(port))
    call MPI_Open_port(MPI_INFO_NULL, port, code)
    call okay('MPI_Open_port')
    call padded(port, 'a port')
    call MPI_Publish_name(service, MPI_INFO_NULL, port, code)
    call okay('MPI_Publish_name')
    call MPI_Publish_name(trim(service), MPI_INFO_NULL, trim(port), code)
    call refused(MPI_ERR_SERVICE, 'published twice')
  end subroutine opened

  subroutine looked_up()
    integer :: class, ignored
    call MPI_Lookup_name(trim(service) // ' that is not', MPI_INFO_NULL, port, code)
    call refused(MPI_ERR_NAME, 'nobody has published it')
    do
      port = repeat('y', len(port))
      call MPI_Lookup_name(trim(service), MPI_INFO_NULL, port, code)
      call MPI_Error_class(code, class, ignored)
      if (class /= MPI_ERR_NAME) exit
    end do
    call okay('MPI_Lookup_name')
    call padded(port, 'a port that was looked up')
    ! By mpi_f08 no more than the longest name is looked at.
    roomy = repeat('z', MPI_MAX_PORT_NAME)
    call MPI_Lookup_name(service, MPI_INFO_NULL, roomy, code)
    call okay('MPI_Lookup_name with room')
    call padded(roomy, 'a port in much room')
    call check(roomy == port, 'the same port')
  end subroutine looked_up

  subroutine meet()
    if (serves) then
      if (round == 1) then
        call MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, code)
      else
        call MPI_Comm_accept(trim(port), MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, code)
      end if
      call okay('MPI_Comm_accept')
      return
    end if
    if (round == 1) then
      call MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, code)
    else if (round == 2) then
      call MPI_Comm_connect(trim(port), MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, code)
    else
      call MPI_Comm_connect(roomy, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, code)
    end if
    call okay('MPI_Comm_connect')
  end subroutine meet

  ! Both ways, from rank 0 and from the last.
  subroutine broadcast()
    integer :: words(50), turn, root, n
    logical :: sends
    do turn = 0, 1
      root = merge(0, mine - 1, turn == 0)
      sends = serves .eqv. (turn == 0)
      words = -1
      if (sends .and. me == root) words = [(n * round, n = 1, 50)]
      if (.not. sends) then
        call MPI_Bcast(words, 50, MPI_INTEGER, root, inter, code)
      else if (me == root) then
        call MPI_Bcast(words, 50, MPI_INTEGER, MPI_ROOT, inter, code)
      else
        call MPI_Bcast(words, 50, MPI_INTEGER, MPI_PROC_NULL, inter, code)
      end if
      call okay('MPI_Bcast')
      if (.not. sends) call check(all(words == [(n * round, n = 1, 50)]), 'what was broadcast')
    end do
  end subroutine broadcast

  subroutine closed()
    call MPI_Unpublish_name(trim(service), MPI_INFO_NULL, port, code)
    call okay('MPI_Unpublish_name')
    call MPI_Lookup_name(service, MPI_INFO_NULL, roomy, code)
    call refused(MPI_ERR_NAME, 'it is not published any more')
    call MPI_Close_port(port, code)
    call okay('MPI_Close_port')
  end subroutine closed
end program ports
