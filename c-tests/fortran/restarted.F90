! A model that is coupled with another one, writes its state now and then, and goes on from there when it is started again:
! `restarted MINE THEIRS FOLDER STEPS EVERY [STOP]`. The other one may have another number of ranks.
!
! In each step a rank sends a part of its numbers to every rank of the other job, and takes in what these have sent `lag`
! steps earlier; so messages are always on their way. All that is computed depends on all that was received, and the result
! is told at the end. At the step STOP the job stands still until it is killed.
program restarted
#define CONNECT
#include "way.h"
  integer, parameter :: long = selected_int_kind(18)
  integer, parameter :: lag = 2, most = 30000, cells = 48, lines = 2, ranks = 4, slots = (lag + 1) * lines * ranks
  ! The first are sent eagerly, the last by a rendezvous.
  integer, parameter :: amounts(0:7) = (/ 1, 7, 64, 1000, 3, 9000, 0, most /)
  double precision, asynchronous, save :: out(most, slots)
  double precision, save :: in(most), x(cells), largest(cells)
  HANDLE(MPI_Request) :: sends(slots)
  HANDLE(MPI_Comm) :: comms(lines + 1)
  STATUS :: status
  character(len=40) :: my_name, their_name
  character(len=1000) :: folder
  character(len=MPI_CONN_MAX_LABEL) :: label
  integer :: handle, count, remote, step, begin, steps, every, stop_at, i, r, n, at
  integer(kind=long) :: hash

  call MPI_Init(code)
  call get_command_argument(1, my_name)
  call get_command_argument(2, their_name)
  call get_command_argument(3, folder)
  steps = number(4)
  every = number(5)
  stop_at = number(6)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, code)
  call MPI_Comm_size(MPI_COMM_WORLD, mine, code)
  call mpi_conn_register(my_name, MPI_COMM_WORLD, handle, code)
  call okay('mpi_conn_register')
  comms(3) = MPI_COMM_SELF
  call mpi_conn_restart(handle, folder, label, 3, comms, count, code)
  call okay('mpi_conn_restart')
  call check(comms(3) == MPI_COMM_SELF, 'beyond the inter-communicators')
  if (count == 0) then
    call check(label == ' ', 'no label in a first run')
    call mpi_conn_intercomm_create(handle, their_name, comms(1), code)
    call okay('mpi_conn_intercomm_create')
    call MPI_Comm_dup(comms(1), comms(2), code)
    call okay('MPI_Comm_dup')
    x = (/ (1d0 / (i + 10 * me + len_trim(my_name)), i = 1, cells) /)
    step = 0
  else
    call same(count, 2, 'inter-communicators')
    call open_state('old')
    read (10) step, x
    close (10)
  end if
  if (me == 0) print '(a,i0)', 'FROM ', step
  flush (6)
  call MPI_Comm_remote_size(comms(1), remote, code)
  call okay('MPI_Comm_remote_size')
  sends = MPI_REQUEST_NULL
  begin = step
  do
    if (mod(step, every) == 0 .and. step > begin) then
      write (label, '(a,i0)') 'step-', step
      call open_state('replace')
      write (10) step, x
      close (10)
      call mpi_conn_checkpoint(handle, folder, label, code)
      call okay('mpi_conn_checkpoint')
    end if
    if (step == stop_at) call stand_still()
    if (step == steps + lag) exit
    do r = 0, lines * remote - 1
      if (step >= steps) exit
      at = 1 + mod(step, lag + 1) + (lag + 1) * r
      n = amount(step, me, r)
      call MPI_Wait(sends(at), MPI_STATUS_IGNORE, code)
      out(:n, at) = (/ (x(1 + mod(i + step, cells)) + i * 1d-3, i = 1, n) /)
      if (mod(step, 5) == 0) then
        call MPI_Issend(out(1, at), n, MPI_DOUBLE_PRECISION, r / lines, step, comms(1 + mod(r, lines)), sends(at), code)
      else
        call MPI_Isend(out(1, at), n, MPI_DOUBLE_PRECISION, r / lines, step, comms(1 + mod(r, lines)), sends(at), code)
      end if
      call okay('a send')
    end do
    do r = 0, lines * remote - 1
      if (step < lag) exit
      call MPI_Recv(in, most, MPI_DOUBLE_PRECISION, r / lines, step - lag, comms(1 + mod(r, lines)), status, code)
      call okay('MPI_Recv')
      call MPI_Get_count(status, MPI_DOUBLE_PRECISION, n, code)
      call same(n, amount(step - lag, r / lines, lines * me + mod(r, lines)), 'numbers')
      do i = 1, n
        at = 1 + mod(i, cells)
        x(at) = x(at) * 0.75d0 + in(i) / (i + 2) + 0.125d0
      end do
    end do
    call MPI_Allreduce(x, largest, cells, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, code)
    x = x + largest * 0.0625d0
    where (x > 10) x = x * 0.1d0
    step = step + 1
  end do
  call MPI_Waitall(slots, sends, MPI_STATUSES_IGNORE, code)
  call okay('MPI_Waitall')
  hash = 0
  do i = 1, cells
    hash = ieor(ishftc(hash, 7), transfer(x(i), hash))
  end do
  print '(a,i0,1x,z16.16)', 'RESULT ', me, hash
  call MPI_Comm_free(comms(2), code)
  call MPI_Comm_free(comms(1), code)
  call okay('MPI_Comm_free')
  call mpi_conn_remove(handle, code)
  call okay('mpi_conn_remove')
  call finish(trim(my_name))

contains
#include "check.h"

  ! A number from the command line, or -1.
  integer function number(which)
    integer, intent(in) :: which
    character(len=20) :: word
    call get_command_argument(which, word)
    number = -1
    if (word /= ' ') read (word, *) number
  end function number

  ! How many numbers are sent in a step.
  integer function amount(step, from, to)
    integer, intent(in) :: step, from, to
    amount = amounts(mod(step + 3 * from + 5 * to, 8))
  end function amount

  ! The program's own file of a label.
  subroutine open_state(how)
    character(len=*), intent(in) :: how
    character(len=1400) :: path
    write (path, '(4a,i0,2a)') trim(folder), '/', trim(my_name), '-', me, '-', trim(label)
    open (10, file=path, form='unformatted', status=how)
  end subroutine open_state

  ! Waits for a message that nobody sends.
  subroutine stand_still()
    integer :: word
    print '(a)', 'STANDS'
    flush (6)
    call MPI_Recv(word, 1, MPI_INTEGER, 0, steps + lag, comms(1), MPI_STATUS_IGNORE, code)
    call okay('a message')
  end subroutine stand_still
end program restarted
