! One half of a pair of Fortran programs: `pair MINE THEIRS SIDE`. Its first exchange is that of `bad joins`, so that its
! other half may be a C program: then SIDE is "c".
program pair
  use mpi
  use mpi_connect
  implicit none
  integer, parameter :: long = 200000
  integer :: handle, inter, code, me, mine, theirs, n, word, class, want, checks = 0, failures = 0, totals(2)
  integer :: status(MPI_STATUS_SIZE), i
  logical :: flag
  ! Longer than any name in them: what is beyond the name is blank.
  character(len=40) :: my_name, their_name, side
  character(len=MPI_MAX_ERROR_STRING) :: text
  character(len=11) :: word_of_theirs
  double precision, allocatable :: field(:)
  logical :: first

  call MPI_Init(code)
  call get_command_argument(1, my_name)
  call get_command_argument(2, their_name)
  call get_command_argument(3, side)
  first = side == '0'
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, code)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, code)
  call MPI_Comm_size(MPI_COMM_WORLD, mine, code)

  ! A name of blanks alone is none.
  call mpi_conn_register('   ', MPI_COMM_WORLD, handle, code)
  call check(code /= MPI_SUCCESS, 'a name of blanks')

  call mpi_conn_register(my_name, MPI_COMM_WORLD, handle, code)
  call okay('mpi_conn_register')
  call mpi_conn_intercomm_create(handle, their_name, inter, code)
  call okay('mpi_conn_intercomm_create')
  call MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN, code)
  call okay('MPI_Comm_set_errhandler')

  word = -1
  call MPI_Sendrecv(99, 1, MPI_INTEGER, me, 0, word, 1, MPI_INTEGER, me, 0, inter, MPI_STATUS_IGNORE, code)
  call okay('MPI_Sendrecv')
  call same(word, 99, 'swapped')

  if (side /= 'c') then
    call MPI_Comm_rank(inter, n, code)
    call same(n, me, 'MPI_Comm_rank')
    call MPI_Comm_size(inter, n, code)
    call same(n, mine, 'MPI_Comm_size')
    call MPI_Comm_remote_size(inter, theirs, code)
    call same(theirs, mine, 'MPI_Comm_remote_size')
    call MPI_Comm_test_inter(inter, flag, code)
    call check(flag, 'MPI_Comm_test_inter')

    ! A word, with a status and without.
    do i = 1, 2
      if (first) then
        call MPI_Send(40 + i, 1, MPI_INTEGER, me, i, inter, code)
        call okay('MPI_Send')
        call MPI_Ssend(50 + i, 1, MPI_INTEGER, me, i, inter, code)
        call okay('MPI_Ssend')
      else
        status = -77
        call MPI_Recv(word, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, status, code)
        call okay('MPI_Recv')
        call same(word, 40 + i, 'word')
        call same(status(MPI_SOURCE), me, 'source')
        call same(status(MPI_TAG), i, 'tag')
        call MPI_Get_count(status, MPI_INTEGER, n, code)
        call same(n, 1, 'count')
        call MPI_Recv(word, 1, MPI_INTEGER, me, i, inter, MPI_STATUS_IGNORE, code)
        call okay('MPI_Recv without a status')
        call same(word, 50 + i, 'word')
      end if
    end do

    ! An array, there and back; fewer than there is room for.
    allocate(field(long + 5))
    if (first) then
      field = [(sqrt(dble(i)), i = 1, long + 5)]
      call MPI_Send(field, long, MPI_DOUBLE_PRECISION, me, 7, inter, code)
      call okay('MPI_Send of an array')
      field = -1
      call MPI_Recv(field, long + 5, MPI_DOUBLE_PRECISION, me, 8, inter, status, code)
    else
      field = -1
      call MPI_Probe(me, 7, inter, status, code)
      call okay('MPI_Probe')
      call MPI_Get_count(status, MPI_DOUBLE_PRECISION, n, code)
      call same(n, long, 'count probed')
      call MPI_Recv(field, long + 5, MPI_DOUBLE_PRECISION, me, 7, inter, status, code)
    end if
    call okay('MPI_Recv of an array')
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, n, code)
    call same(n, long, 'count')
    call MPI_Get_count(status, MPI_INTEGER, n, code)
    call same(n, 2 * long, 'count in integers')
    call check(all(field(:long) == [(sqrt(dble(i)), i = 1, long)]), 'the array')
    call check(all(field(long + 1:) == -1), 'beyond the array')
    if (.not. first) call MPI_Send(field, long, MPI_DOUBLE_PRECISION, me, 8, inter, code)
    call okay('MPI_Send of an array')

    ! Text, and nothing at all.
    if (first) then
      call MPI_Send('air & ocean', 11, MPI_CHARACTER, me, 9, inter, code)
      call MPI_Send(word, 0, MPI_INTEGER, me, 10, inter, code)
    else
      call MPI_Recv(word_of_theirs, 11, MPI_CHARACTER, me, 9, inter, MPI_STATUS_IGNORE, code)
      call okay('MPI_Recv of text')
      call check(word_of_theirs == 'air & ocean', 'text')
      call MPI_Recv(word, 1, MPI_INTEGER, me, 10, inter, status, code)
      call MPI_Get_count(status, MPI_INTEGER, n, code)
      call same(n, 0, 'count of nothing')
    end if
    call okay('an empty message')
    call MPI_Recv(word, 1, MPI_INTEGER, MPI_PROC_NULL, 1, inter, MPI_STATUS_IGNORE, code)
    call okay('MPI_Recv of nobody')

    ! Errors come back as they do from the MPI.
    call MPI_Send(word, 1, MPI_INTEGER, theirs, 1, inter, code)
    call refused(MPI_ERR_RANK, 'a wrong rank')
    call MPI_Barrier(inter, code)
    call refused(MPI_ERR_COMM, 'MPI_Barrier')
    if (code /= MPI_SUCCESS) then
      call MPI_Error_string(code, text, n, class)
      call check(index(text(:n), 'MPI_Barrier') > 0, 'the text names the call')
    end if
    call mpi_conn_error_class(MPI_CONN_ERR_PEER_GONE, want, code)
    call okay('mpi_conn_error_class')
    if (first) then
      call MPI_Recv(word, 1, MPI_INTEGER, me, 11, inter, status, code)
      call okay('MPI_Recv of the last word')
    else
      call MPI_Send(1, 1, MPI_INTEGER, me, 11, inter, code)
      call okay('MPI_Send of the last word')
    end if
  end if

  call mpi_conn_remove(handle, code)
  call okay('mpi_conn_remove')
  call MPI_Comm_free(inter, code)
  call okay('MPI_Comm_free')
  call check(inter == MPI_COMM_NULL, 'MPI_COMM_NULL')
  call MPI_Allreduce([checks, failures], totals, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (me == 0) print '(3a,i0,a,i0)', 'DONE ', trim(my_name), ' checks ', totals(1), ' failures ', totals(2)
  call MPI_Finalize(code)
  if (totals(2) /= 0) stop 1

contains

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    checks = checks + 1
    if (condition) return
    failures = failures + 1
    print '(3a,i0,2a)', 'FAIL ', trim(my_name), ' rank ', me, ': ', what
  end subroutine check

  subroutine same(got, wanted, what)
    integer, intent(in) :: got, wanted
    character(len=*), intent(in) :: what
    call check(got == wanted, what)
    if (got /= wanted) print '(2(a,i0))', '  is ', got, ', not ', wanted
  end subroutine same

  ! The call before must have worked; what follows it could only hang.
  subroutine okay(what)
    character(len=*), intent(in) :: what
    integer :: length, ignored
    call check(code == MPI_SUCCESS, what)
    if (code == MPI_SUCCESS) return
    call MPI_Error_string(code, text, length, ignored)
    print '(2a)', '  ', text(:length)
    flush (6)
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine okay

  subroutine refused(wanted, what)
    integer, intent(in) :: wanted
    character(len=*), intent(in) :: what
    integer :: found, ignored
    call MPI_Error_class(code, found, ignored)
    call same(found, wanted, what)
  end subroutine refused
end program pair
