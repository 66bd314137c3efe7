! The Fortran half of a pair of jobs of as many ranks each: `half MINE THEIRS FOLDER`. The other half is mirror.c. Every value
! is checked where it arrives. The folder is for checkpoints.
program half
#define CONNECT
#include "way.h"
  integer, parameter :: long = 50000, total = 7
  integer :: handle, class
  ! Of the requests of one exchange.
  integer :: left
  logical :: done(total)
  STATUSES(statuses, total)
  HANDLE(MPI_Comm) :: inter
  ! Longer than any name in them: what is beyond the name is blank.
  character(len=40) :: my_name, their_name

  call MPI_Init(code)
  call get_command_argument(1, my_name)
  call get_command_argument(2, their_name)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, code)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, code)
  call MPI_Comm_size(MPI_COMM_WORLD, mine, code)

  call bad_names()
  call mpi_conn_register(my_name, MPI_COMM_WORLD, handle, code)
  call okay('mpi_conn_register')
  call bad_names_of_theirs()
  call mpi_conn_intercomm_create(handle, their_name, inter, code)
  call okay('mpi_conn_intercomm_create')
  call MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN, code)
  call okay('MPI_Comm_set_errhandler')

  call queries()
  call files()
  call sentinels()
  call words()
  call types()
  call bottom()
  call requests()
  call persistent()
  call probes()
  call errors()

  call mpi_conn_hold(code)
  call okay('mpi_conn_hold')
  call mpi_conn_resume(code)
  call okay('mpi_conn_resume')
  call mpi_conn_error_class(MPI_CONN_ERR_PEER_GONE, class, code)
  call okay('mpi_conn_error_class')
  call mpi_conn_error_class(77, class, code)
  call refused(MPI_ERR_ARG, 'a class that there is not')
#ifdef WAY_F08
  call mpi_conn_remove(handle)
#else
  call mpi_conn_remove(handle, code)
  call okay('mpi_conn_remove')
#endif
  call mpi_conn_remove(handle, code)
  call check(code /= MPI_SUCCESS, 'mpi_conn_remove, again')
  call MPI_Comm_free(inter, code)
  call okay('MPI_Comm_free')
  call check(inter == MPI_COMM_NULL, 'MPI_COMM_NULL')
  call checkpoints()
  call finish(trim(my_name))

contains
#include "check.h"

  subroutine bad_names()
    character(len=300) :: text
    call mpi_conn_register('   ', MPI_COMM_WORLD, handle, code)
    call refused(MPI_ERR_ARG, 'a name of blanks')
    text = repeat('x', 256)
    call mpi_conn_register(text, MPI_COMM_WORLD, handle, code)
    call refused(MPI_ERR_ARG, 'a name that is too long')
    call mpi_conn_register('a' // char(0) // 'b', MPI_COMM_WORLD, handle, code)
    call refused(MPI_ERR_ARG, 'a name with a zero in it')
    ! As C programs end it.
    call mpi_conn_register(trim(my_name) // char(0), MPI_COMM_WORLD, handle, code)
    call okay('a name with a zero at its end')
    call mpi_conn_remove(handle, code)
    text = repeat('x', 255)
    text(:2) = my_name(:2)
    call mpi_conn_register(text, MPI_COMM_WORLD, handle, code)
    call okay('the longest name')
    call mpi_conn_remove(handle, code)
    call okay('mpi_conn_remove of the longest name')
  end subroutine bad_names

  subroutine bad_names_of_theirs()
    call mpi_conn_intercomm_create(handle, ' ', inter, code)
    call refused(MPI_ERR_ARG, 'a name of theirs of blanks')
    call mpi_conn_intercomm_create(handle, repeat('x', 256), inter, code)
    call refused(MPI_ERR_ARG, 'a name of theirs that is too long')
    call mpi_conn_intercomm_create(handle, 'a' // char(0) // 'b', inter, code)
    call refused(MPI_ERR_ARG, 'a name of theirs with a zero in it')
  end subroutine bad_names_of_theirs

  ! Of a job that is joined with no other: what is refused, and how text goes in and comes back.
  subroutine checkpoints()
    HANDLE(MPI_Comm) :: comms(1)
    character(len=1000) :: folder
    character(len=MPI_CONN_MAX_LABEL) :: label, wanted
    character(len=5) :: short
    integer :: count
    call get_command_argument(3, folder)
    label = repeat('x', MPI_CONN_MAX_LABEL)
    wanted = ' a label with blanks'
    call mpi_conn_register(my_name, MPI_COMM_WORLD, handle, code)
    call mpi_conn_checkpoint(handle, folder, wanted, code)
    call refused(MPI_ERR_ARG, 'a checkpoint without mpi_conn_restart')
    call mpi_conn_restart(handle, ' ', label, 1, comms, count, code)
    call refused(MPI_ERR_ARG, 'a folder of blanks')
    call mpi_conn_restart(handle, repeat('x', 4096), label, 1, comms, count, code)
    call refused(MPI_ERR_ARG, 'a folder whose name is too long')
    call mpi_conn_restart(handle, folder, label, -1, comms, count, code)
    call refused(MPI_ERR_ARG, 'less than no room')
    call mpi_conn_restart(handle, folder, label, 0, comms, count, code)
    call okay('mpi_conn_restart')
    call same(count, 0, 'inter-communicators of a first run')
    call check(label == ' ', 'no label in a first run')
    call mpi_conn_restart(handle, folder, label, 1, comms, count, code)
    call refused(MPI_ERR_ARG, 'mpi_conn_restart, again')
    call mpi_conn_checkpoint(handle, trim(folder) // char(0) // 'b', wanted, code)
    call refused(MPI_ERR_ARG, 'a folder with a zero in its name')
    call mpi_conn_checkpoint(handle, folder, 'a' // char(0) // 'b', code)
    call refused(MPI_ERR_ARG, 'a label with a zero in it')
    call mpi_conn_checkpoint(handle, folder, repeat('x', MPI_CONN_MAX_LABEL + 1), code)
    call refused(MPI_ERR_ARG, 'a label that is too long')
    call mpi_conn_checkpoint(handle, '/dev/null/x', wanted, code)
    call refused(MPI_ERR_OTHER, 'a folder that cannot be made')
    call mpi_conn_checkpoint(handle, folder, wanted, code)
    call okay('mpi_conn_checkpoint')
    call come_back('a label that does not fit')
    call mpi_conn_restart(handle, folder, short, 1, comms, count, code)
    call refused(MPI_ERR_OTHER, 'a label that does not fit')
    call come_back('a label')
    call mpi_conn_restart(handle, folder, label(:30), 1, comms, count, code)
    call okay('mpi_conn_restart with a label')
    call check(label(:30) == wanted, 'the label, padded')
    wanted = repeat('y', MPI_CONN_MAX_LABEL)
    call mpi_conn_checkpoint(handle, folder, wanted, code)
    call okay('mpi_conn_checkpoint with the longest label')
    call come_back('the longest label')
#ifdef WAY_F08
    call mpi_conn_restart(handle, folder, label, 1, comms, count)
#else
    call mpi_conn_restart(handle, folder, label, 1, comms, count, code)
    call okay('mpi_conn_restart with the longest label')
#endif
    call check(label == wanted, 'the longest label')
    call same(count, 0, 'no inter-communicators')
    call mpi_conn_remove(handle, code)
    call okay('mpi_conn_remove at last')
  end subroutine checkpoints

  ! As if the job had been started again.
  subroutine come_back(what)
    character(len=*), intent(in) :: what
    call mpi_conn_remove(handle, code)
    call mpi_conn_register(my_name, MPI_COMM_WORLD, handle, code)
    call okay(what)
  end subroutine come_back

  subroutine queries()
    integer :: n
    logical :: flag
    HANDLE(MPI_Group) :: group
    call MPI_Comm_rank(inter, n, code)
    call same(n, me, 'MPI_Comm_rank')
    call MPI_Comm_size(inter, n, code)
    call same(n, mine, 'MPI_Comm_size')
    call MPI_Comm_remote_size(inter, n, code)
    call same(n, mine, 'MPI_Comm_remote_size')
    call MPI_Comm_test_inter(inter, flag, code)
    call check(flag, 'MPI_Comm_test_inter')
    call MPI_Comm_test_inter(MPI_COMM_WORLD, flag, code)
    call check(.not. flag, 'MPI_Comm_test_inter of the world')
    call MPI_Comm_compare(inter, MPI_COMM_WORLD, n, code)
    call same(n, MPI_UNEQUAL, 'MPI_Comm_compare')
    call MPI_Comm_remote_group(inter, group, code)
    call okay('MPI_Comm_remote_group')
    call MPI_Group_size(group, n, code)
    call okay('MPI_Group_size')
    call same(n, mine, 'MPI_Group_size')
    call MPI_Group_rank(group, n, code)
    call same(n, MPI_UNDEFINED, 'MPI_Group_rank')
    call MPI_Group_free(group, code)
    call okay('MPI_Group_free')
    call check(group == MPI_GROUP_NULL, 'MPI_GROUP_NULL')
    ! A group of the MPI's own beside it.
    call MPI_Comm_group(inter, group, code)
    call MPI_Group_rank(group, n, code)
    call same(n, me, 'MPI_Group_rank of the local group')
    call MPI_Group_free(group, code)
    call okay('MPI_Group_free of the local group')
    call groups()
  end subroutine queries

  ! Groups of both jobs, and what is left without the other.
  subroutine groups()
    HANDLE(MPI_Group) :: near, far, all, back
    integer :: n, ranks(3), there(3)
    call MPI_Comm_group(inter, near, code)
    call MPI_Comm_remote_group(inter, far, code)
    call MPI_Group_union(near, far, all, code)
    call okay('MPI_Group_union')
    call MPI_Group_size(all, n, code)
    call same(n, 2 * mine, 'MPI_Group_size of both')
    call MPI_Group_rank(all, n, code)
    call same(n, me, 'MPI_Group_rank in both')
    ranks = (/ me, mine + me, MPI_PROC_NULL /)
    call MPI_Group_translate_ranks(all, 3, ranks, far, there, code)
    call okay('MPI_Group_translate_ranks')
    call same(there(1), MPI_UNDEFINED, 'a rank here')
    call same(there(2), me, 'a rank there')
    call same(there(3), MPI_PROC_NULL, 'MPI_PROC_NULL')
    call MPI_Group_difference(all, far, back, code)
    call okay('MPI_Group_difference')
    call MPI_Group_compare(back, near, n, code)
    call same(n, MPI_IDENT, 'MPI_Group_compare')
    call MPI_Group_free(back, code)
    call MPI_Group_incl(all, 1, ranks(2:2), back, code)
    call okay('MPI_Group_incl')
    call MPI_Group_compare(back, near, n, code)
    call same(n, MPI_UNEQUAL, 'MPI_Group_compare with a part of the others')
    call MPI_Group_free(back, code)
    call MPI_Group_free(all, code)
    call MPI_Group_free(far, code)
    call MPI_Group_free(near, code)
    call okay('MPI_Group_free of all')
  end subroutine groups

  subroutine is_from(status, tag, count, what)
    STATUS, intent(in) :: status
    integer, intent(in) :: tag, count
    character(len=*), intent(in) :: what
    integer :: n
    call same(SOURCE_OF(status), me, what // ': source')
    call same(TAG_OF(status), tag, what // ': tag')
    call MPI_Get_count(status, MPI_INTEGER, n, code)
    call okay('MPI_Get_count')
    call same(n, count, what // ': count')
  end subroutine is_from

  subroutine words()
    integer :: i, word
    STATUS :: status
    do i = 1, 2
      word = 40 + i
      call MPI_Send(word, 1, MPI_INTEGER, me, i, inter, code)
      call okay('MPI_Send')
      word = 50 + i
      call MPI_Ssend(word, 1, MPI_INTEGER, me, i, inter, code)
      call okay('MPI_Ssend')
      call MPI_Recv(word, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, status, code)
      call okay('MPI_Recv')
      call same(word, 60 + i, 'word')
      call is_from(status, 10 + i, 1, 'MPI_Recv')
      call MPI_Recv(word, 1, MPI_INTEGER, me, i, inter, MPI_STATUS_IGNORE, code)
      call okay('MPI_Recv without a status')
      call same(word, 70 + i, 'word without a status')
    end do
    call MPI_Send(MPI_BOTTOM, 0, MPI_INTEGER, me, 3, inter, code)
    call okay('MPI_Send of nothing')
    call MPI_Recv(word, 1, MPI_INTEGER, me, 3, inter, status, code)
    call is_from(status, 3, 0, 'nothing')
  end subroutine words

  ! Each goes there and comes back.
  subroutine types()
    integer :: i
    integer :: i4(4), i4_back(4)
    real :: r4(4), r4_back(4)
    double precision :: r8(4), r8_back(4)
    logical :: l(4), l_back(4)
    complex :: c8(2), c8_back(2)
    character(len=11) :: text, text_back
    double precision :: field(5, 4), field_back(5, 4)
    HANDLE(MPI_Datatype) :: row, columns, strided
    integer(kind=ADDRESS) :: stride

    i4 = [(2000 + i, i = 1, 4)]
    call MPI_Send(i4, 4, MPI_INTEGER, me, 20, inter, code)
    call okay('MPI_INTEGER')
    call MPI_Recv(i4_back, 4, MPI_INTEGER, me, 20, inter, MPI_STATUS_IGNORE, code)
    call check(all(i4_back == i4), 'MPI_INTEGER')
    r4 = [(21 + 0.25 * i, i = 1, 4)]
    call MPI_Send(r4, 4, MPI_REAL, me, 21, inter, code)
    call okay('MPI_REAL')
    call MPI_Recv(r4_back, 4, MPI_REAL, me, 21, inter, MPI_STATUS_IGNORE, code)
    call check(all(r4_back == r4), 'MPI_REAL')
    r8 = [(22 + 0.25d0 * i, i = 1, 4)]
    call MPI_Send(r8, 4, MPI_DOUBLE_PRECISION, me, 22, inter, code)
    call okay('MPI_DOUBLE_PRECISION')
    call MPI_Recv(r8_back, 4, MPI_DOUBLE_PRECISION, me, 22, inter, MPI_STATUS_IGNORE, code)
    call check(all(r8_back == r8), 'MPI_DOUBLE_PRECISION')
    r8 = r8 + 1
    call MPI_Send(r8, 4, MPI_REAL8, me, 23, inter, code)
    call okay('MPI_REAL8')
    call MPI_Recv(r8_back, 4, MPI_REAL8, me, 23, inter, MPI_STATUS_IGNORE, code)
    call check(all(r8_back == r8), 'MPI_REAL8')
    l = [.true., .false., .false., .true.]
    call MPI_Send(l, 4, MPI_LOGICAL, me, 24, inter, code)
    call okay('MPI_LOGICAL')
    call MPI_Recv(l_back, 4, MPI_LOGICAL, me, 24, inter, MPI_STATUS_IGNORE, code)
    call check(all(l_back .eqv. l), 'MPI_LOGICAL')
    c8 = [(25.25, 25.5), (25.75, 26.0)]
    call MPI_Send(c8, 2, MPI_COMPLEX, me, 25, inter, code)
    call okay('MPI_COMPLEX')
    call MPI_Recv(c8_back, 2, MPI_COMPLEX, me, 25, inter, MPI_STATUS_IGNORE, code)
    call check(all(c8_back == c8), 'MPI_COMPLEX')
    text = 'air & ocean'
    call MPI_Send(text, 11, MPI_CHARACTER, me, 26, inter, code)
    call okay('MPI_CHARACTER')
    call MPI_Recv(text_back, 11, MPI_CHARACTER, me, 26, inter, MPI_STATUS_IGNORE, code)
    call check(text_back == text, 'MPI_CHARACTER')

    ! A row of a matrix; two columns; every second element of a column. They come back as plain numbers.
    field = 0
    field(2, :) = [(27 + 0.25d0 * i, i = 1, 4)]
    call MPI_Type_vector(4, 1, 5, MPI_DOUBLE_PRECISION, row, code)
    call MPI_Type_commit(row, code)
    call okay('MPI_Type_vector')
    call MPI_Send(field(2, 1), 1, row, me, 27, inter, code)
    call okay('a row')
    field_back = -1
    call MPI_Recv(field_back(4, 1), 1, row, me, 27, inter, MPI_STATUS_IGNORE, code)
    call okay('a row back')
    call check(all(field_back(4, :) == field(2, :)), 'a row')
    call check(all(field_back(:3, :) == -1) .and. all(field_back(5, :) == -1), 'beside the row')
    field(:, 3) = [(28 + 0.25d0 * i, i = 1, 5)]
    call MPI_Type_contiguous(5, MPI_DOUBLE_PRECISION, columns, code)
    call MPI_Type_commit(columns, code)
    call MPI_Send(field(1, 3), 1, columns, me, 28, inter, code)
    call okay('a column')
    field_back = -1
    call MPI_Recv(field_back(1, 2), 1, columns, me, 28, inter, MPI_STATUS_IGNORE, code)
    call check(all(field_back(:, 2) == field(:, 3)), 'a column')
    stride = 16
    call MPI_Type_create_hvector(3, 1, stride, MPI_DOUBLE_PRECISION, strided, code)
    call MPI_Type_commit(strided, code)
    call okay('MPI_Type_create_hvector')
    field(1, 1) = 29.25d0
    field(3, 1) = 29.5d0
    field(5, 1) = 29.75d0
    call MPI_Send(field, 1, strided, me, 29, inter, code)
    call okay('every second')
    field_back = -1
    call MPI_Recv(field_back, 1, strided, me, 29, inter, MPI_STATUS_IGNORE, code)
    call check(all(field_back(1:5:2, 1) == field(1:5:2, 1)) .and. field_back(2, 1) == -1, 'every second')
    call MPI_Type_free(row, code)
    call MPI_Type_free(columns, code)
    call MPI_Type_free(strided, code)
    call okay('MPI_Type_free')
  end subroutine types

  ! A type of absolute addresses: right, or refused; never quietly wrong.
  subroutine bottom()
    integer, volatile :: word
    integer :: lengths(1)
    integer(kind=ADDRESS) :: places(1)
    HANDLE(MPI_Datatype) :: there
    lengths = 1
    word = 3000 + me
    call MPI_Get_address(word, places(1), code)
    call MPI_Type_create_hindexed(1, lengths, places, MPI_INTEGER, there, code)
    call MPI_Type_commit(there, code)
    call okay('MPI_Type_create_hindexed')
    call MPI_Send(MPI_BOTTOM, 1, there, me, 30, inter, code)
    call okay('MPI_Send at MPI_BOTTOM')
    word = -1
    call MPI_Recv(MPI_BOTTOM, 1, there, me, 30, inter, MPI_STATUS_IGNORE, code)
    call okay('MPI_Recv at MPI_BOTTOM')
    call same(word, 3001 + me, 'at MPI_BOTTOM')
    call MPI_Type_free(there, code)
  end subroutine bottom

  subroutine requests()
    integer :: how
    do how = 1, 9
      call exchange(how)
    end do
  end subroutine requests

  ! Requests that stay when they are complete.
  subroutine persistent()
    integer, asynchronous :: word_in, word_out, native_in, native_out
    integer :: how, i, n, index, indices(5), next, last, open
    HANDLE(MPI_Request) :: all_of(5), kept(5)
    STATUSES(some, 5)
    STATUS :: status
    logical :: flag
    next = mod(me + 1, mine)
    last = mod(me + mine - 1, mine)
    call MPI_Recv_init(word_in, 1, MPI_INTEGER, me, 81, inter, all_of(1), code)
    call okay('MPI_Recv_init')
    call MPI_Recv_init(native_in, 1, MPI_INTEGER, last, 80, MPI_COMM_WORLD, all_of(2), code)
    call MPI_Send_init(word_out, 1, MPI_INTEGER, me, 82, inter, all_of(3), code)
    call okay('MPI_Send_init')
    call MPI_Send_init(native_out, 1, MPI_INTEGER, next, 80, MPI_COMM_WORLD, all_of(4), code)
    all_of(5) = MPI_REQUEST_NULL
    kept = all_of
    do how = 1, 8
      word_in = -1
      native_in = -1
      word_out = 8200 + 10 * how + me
      native_out = 8000 + 10 * how + me
      if (mod(how, 2) == 0) then
        call MPI_Startall(4, all_of, code)
        call okay('MPI_Startall')
      else
        do i = 1, 4
          call MPI_Start(all_of(i), code)
          call okay('MPI_Start')
        end do
      end if
      open = 4
      flag = .false.
      select case (how)
      case (1)
        do i = 1, 5
          call MPI_Wait(all_of(i), status, code)
          call okay('MPI_Wait')
          if (i == 1) call is_from(status, 81, 1, 'MPI_Wait')
        end do
      case (2)
        call MPI_Waitall(5, all_of, some, code)
        call okay('MPI_Waitall')
        call is_from(NTH(some, 1), 81, 1, 'MPI_Waitall')
      case (3)
        do i = 1, 4
          call MPI_Waitany(5, all_of, index, status, code)
          call okay('MPI_Waitany')
        end do
      case (4)
        do while (open > 0)
          call MPI_Waitsome(5, all_of, n, indices, some, code)
          call okay('MPI_Waitsome')
          open = open - n
        end do
      case (5)
        do i = 1, 5
          flag = .false.
          do while (.not. flag)
            call MPI_Test(all_of(i), flag, status, code)
          end do
        end do
      case (6)
        do while (.not. flag)
          call MPI_Testall(5, all_of, flag, some, code)
        end do
      case (7)
        do i = 1, 4
          flag = .false.
          do while (.not. flag)
            call MPI_Testany(5, all_of, index, flag, status, code)
          end do
        end do
      case (8)
        do while (open > 0)
          call MPI_Testsome(5, all_of, n, indices, some, code)
          open = open - n
        end do
      end select
      call same(word_in, 8100 + 10 * how + me, 'a word by a persistent receive')
      call same(native_in, 8000 + 10 * how + last, 'one of the own job')
      do i = 1, 5
        call check(all_of(i) == kept(i), 'a persistent request stays')
      end do
      ! None is active.
      call MPI_Wait(all_of(1), status, code)
      call okay('MPI_Wait of one that is not started')
      call MPI_Waitall(5, all_of, some, code)
      call okay('MPI_Waitall of such')
      call MPI_Waitsome(5, all_of, n, indices, some, code)
      call same(n, MPI_UNDEFINED, 'MPI_Waitsome of such')
      do i = 1, 5
        call check(all_of(i) == kept(i), 'one that is not started stays')
      end do
    end do
    do i = 1, 4
      call MPI_Request_free(all_of(i), code)
      call okay('MPI_Request_free')
      call check(all_of(i) == MPI_REQUEST_NULL, 'MPI_REQUEST_NULL')
    end do
  end subroutine persistent

  pure integer function value(how, message, i)
    integer, intent(in) :: how, message, i
    value = how * 10000000 + message * 1000000 + i
  end function value

  subroutine exchange(how)
    integer, intent(in) :: how
    integer, target, asynchronous :: short_in(5), long_in(long), short_out(3), long_out(long)
    integer :: native_in, native_out, next, last, i, k, n, index, indices(total)
    HANDLE(MPI_Request) :: all_of(total)
    STATUSES(some, total)
    STATUS :: status
    logical :: flag, wanted
    next = mod(me + 1, mine)
    last = mod(me + mine - 1, mine)
    short_in = -1
    long_in = -1
    native_in = -1
    native_out = 1000 + me
    short_out = [(value(how, 3, i), i = 1, 3)]
    long_out = [(value(how, 4, i), i = 1, long)]
    call MPI_Irecv(short_in, 5, MPI_INTEGER, me, 100 * how + 1, inter, all_of(1), code)
    call okay('MPI_Irecv')
    call check(all_of(1) /= MPI_REQUEST_NULL, 'a request')
#ifdef LAM
    ! They begin at 55.
    call check(all_of(1) < 70, 'INTEGERs of requests are given back')
#endif
    call MPI_Irecv(native_in, 1, MPI_INTEGER, last, how, MPI_COMM_WORLD, all_of(2), code)
    call MPI_Irecv(long_in, long, MPI_INTEGER, me, 100 * how + 2, inter, all_of(3), code)
    call okay('MPI_Irecv of a long one')
    all_of(4) = MPI_REQUEST_NULL
    call MPI_Isend(short_out, 3, MPI_INTEGER, me, 100 * how + 3, inter, all_of(5), code)
    call okay('MPI_Isend')
    call MPI_Issend(long_out, long, MPI_INTEGER, me, 100 * how + 4, inter, all_of(6), code)
    call okay('MPI_Issend')
    call MPI_Isend(native_out, 1, MPI_INTEGER, next, how, MPI_COMM_WORLD, all_of(7), code)
    call okay('MPI_Isend to the own job')

    done = .false.
    wanted = .true.
    left = total - 1
    flag = .false.
    select case (how)
    case (1)
      do i = 1, total
        call MPI_Wait(all_of(i), NTH(statuses, i), code)
        call okay('MPI_Wait')
      end do
    case (2)
      call MPI_Waitall(total, all_of, statuses, code)
      call okay('MPI_Waitall')
    case (3)
      wanted = .false.
      call MPI_Waitall(total, all_of, MPI_STATUSES_IGNORE, code)
      call okay('MPI_Waitall without statuses')
    case (4)
      do while (left > 0)
        call MPI_Waitany(total, all_of, index, status, code)
        call okay('MPI_Waitany')
        call is_done(index, status)
      end do
    case (5)
      do while (left > 0)
        call MPI_Waitsome(total, all_of, n, indices, some, code)
        call okay('MPI_Waitsome')
        do k = 1, n
          call is_done(indices(k), NTH(some, k))
        end do
      end do
    case (6)
      do i = 1, total
        flag = .false.
        do while (.not. flag)
          call MPI_Test(all_of(i), flag, NTH(statuses, i), code)
        end do
        call okay('MPI_Test')
      end do
    case (7)
      do while (.not. flag)
        call MPI_Testall(total, all_of, flag, statuses, code)
      end do
      call okay('MPI_Testall')
    case (8)
      do while (left > 0)
        call MPI_Testany(total, all_of, index, flag, status, code)
        if (flag) call is_done(index, status)
      end do
      call okay('MPI_Testany')
    case (9)
      do while (left > 0)
        call MPI_Testsome(total, all_of, n, indices, some, code)
        do k = 1, n
          call is_done(indices(k), NTH(some, k))
        end do
      end do
      call okay('MPI_Testsome')
    end select

    do i = 1, total
      call check(all_of(i) == MPI_REQUEST_NULL, 'MPI_REQUEST_NULL')
    end do
    if (wanted) then
      call is_from(NTH(statuses, 1), 100 * how + 1, 4, 'a short one')
      call is_from(NTH(statuses, 3), 100 * how + 2, long, 'a long one')
    end if
    call check(all(short_in == [(value(how, 1, i), i = 1, 4), -1]), 'a short one')
    call check(all(long_in == [(value(how, 2, i), i = 1, long)]), 'a long one')
    call same(native_in, 1000 + last, 'from the own job')
  end subroutine exchange

  subroutine is_done(index, status)
    integer, intent(in) :: index
    STATUS, intent(in) :: status
    integer :: at
    at = index - first + 1
    call check(at >= 1 .and. at <= total .and. at /= 4, 'an index')
    if (at < 1 .or. at > total) return
    call check(.not. done(at), 'reported once')
    done(at) = .true.
    NTH(statuses, at) = status
    left = left - 1
  end subroutine is_done

  subroutine probes()
    STATUS :: status
    logical :: flag
    double precision :: field(7)
    integer :: n, out, in
#ifndef LAM
    HANDLE(MPI_Message) :: message
#endif
    call MPI_Probe(me, 50, inter, status, code)
    call okay('MPI_Probe')
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, n, code)
    call same(n, 7, 'count probed')
    call same(SOURCE_OF(status), me, 'source probed')
    call MPI_Recv(field, n, MPI_DOUBLE_PRECISION, me, 50, inter, MPI_STATUS_IGNORE, code)
    call check(all(field == [50.25d0, 50.5d0, 50.75d0, 51d0, 51.25d0, 51.5d0, 51.75d0]), 'what was probed')
    call MPI_Probe(MPI_ANY_SOURCE, 51, inter, MPI_STATUS_IGNORE, code)
    call okay('MPI_Probe without a status')
    call MPI_Iprobe(MPI_ANY_SOURCE, 51, inter, flag, MPI_STATUS_IGNORE, code)
    call check(flag, 'MPI_Iprobe finds it')
    call MPI_Iprobe(me, 51, inter, flag, status, code)
    call check(flag, 'MPI_Iprobe finds it again')
    call is_from(status, 51, 1, 'MPI_Iprobe')
#ifdef LAM
    call MPI_Recv(in, 1, MPI_INTEGER, me, 51, inter, status, code)
#else
    call MPI_Mprobe(me, 51, inter, message, status, code)
    call okay('MPI_Mprobe')
    call is_from(status, 51, 1, 'MPI_Mprobe')
    call check(message /= MPI_MESSAGE_NULL, 'a message')
    call MPI_Mrecv(in, 1, MPI_INTEGER, message, status, code)
    call okay('MPI_Mrecv')
    call check(message == MPI_MESSAGE_NULL, 'a message that is received')
#endif
    call same(in, 5100 + me, 'what Iprobe found')
    call MPI_Iprobe(me, 51, inter, flag, status, code)
    call check(.not. flag, 'MPI_Iprobe finds nothing')
    out = 5200 + me
    in = -1
    call MPI_Sendrecv(out, 1, MPI_INTEGER, me, 52, in, 1, MPI_INTEGER, me, 52, inter, status, code)
    call okay('MPI_Sendrecv')
    call same(in, 5300 + me, 'MPI_Sendrecv')
    call is_from(status, 52, 1, 'MPI_Sendrecv')
    call MPI_Sendrecv(out, 1, MPI_INTEGER, me, 53, in, 1, MPI_INTEGER, me, 53, inter, MPI_STATUS_IGNORE, code)
    call okay('MPI_Sendrecv without a status')
    call same(in, 5400 + me, 'MPI_Sendrecv without a status')
    call MPI_Recv(in, 1, MPI_INTEGER, MPI_PROC_NULL, 1, inter, status, code)
    call okay('MPI_Recv of nobody')
    call same(SOURCE_OF(status), MPI_PROC_NULL, 'nobody')
  end subroutine probes

  ! Of the other job, whose half is C and makes no call.
  subroutine files()
    character(len=1000) :: folder
    logical :: there
    call get_environment_variable('MPI_CONNECT_TEST_DIR', folder)
    call mpi_conn_putfile(inter, trim(folder) // '/open/sent', 'put   ', code)
    call okay('mpi_conn_putfile')
    call mpi_conn_getfile(inter, 'put', trim(folder) // '/got', code)
    call okay('mpi_conn_getfile')
    inquire(file=trim(folder) // '/got', exist=there)
    call check(there, 'a file that was fetched')
    call mpi_conn_getfile(inter, ' ', 'got', code)
    call refused(MPI_ERR_ARG, 'a path of blanks')
    call mpi_conn_getfile(inter, 'nothing', 'got', code)
    call check(code /= MPI_SUCCESS, 'a file that is not there')
  end subroutine files

  subroutine errors()
    character(len=ERROR_STRING) :: text
    HANDLE(MPI_Request) :: both(2)
    STATUSES(statuses, 2)
    integer :: word, two(2), n, ignored
    call MPI_Send(word, 1, MPI_INTEGER, mine, 1, inter, code)
    call refused(MPI_ERR_RANK, 'a wrong rank')
    call MPI_Send(word, -1, MPI_INTEGER, me, 1, inter, code)
    call refused(MPI_ERR_COUNT, 'a wrong count')
    call MPI_Allreduce(word, two, 1, MPI_INTEGER, MPI_SUM, inter, code)
    call refused(MPI_ERR_COMM, 'MPI_Allreduce')
    call MPI_Error_string(code, text, n, ignored)
    call check(index(text(:n), 'MPI_Allreduce') > 0, 'the text names the call')
    call check(text(n + 1:) == ' ', 'the text is followed by blanks')
    call MPI_Recv(two, 2, MPI_INTEGER, me, 70, inter, MPI_STATUS_IGNORE, code)
    call refused(MPI_ERR_TRUNCATE, 'truncation')
    call MPI_Irecv(two, 2, MPI_INTEGER, me, 71, inter, both(1), code)
    call MPI_Irecv(word, 1, MPI_INTEGER, me, 72, inter, both(2), code)
    call MPI_Waitall(2, both, statuses, code)
    call refused(MPI_ERR_IN_STATUS, 'truncation in an array')
    call same(word, 72, 'beside the one that was truncated')
  end subroutine errors
end program half
