! Datatypes by the calls of MPI-1 that give distances in INTEGERs: `old_types MINE THEIRS SIDE`. The other half is the same
! program under another MPI.
program old_types
#define CONNECT
#include "way.h"
  integer :: handle, inter, types(4), parts(2), lengths(2), places(2), cells(32), i, t
  integer :: elements(MPI_STATUS_SIZE)
  ! Which of the cells each type has, from 0 on, in order.
  integer, parameter :: wanted(4, 4) = reshape([0, 1, 5, 6, 7, 8, 2, 3, 9, 10, 4, 5, 0, 1, 12, 13], [4, 4])
  integer :: order(4)
  character(len=40) :: my_name, their_name, side

  call MPI_Init(code)
  call get_command_argument(1, my_name)
  call get_command_argument(2, their_name)
  call get_command_argument(3, side)
  me = 0
  call mpi_conn_register(my_name, MPI_COMM_WORLD, handle, code)
  call okay('mpi_conn_register')
  call mpi_conn_intercomm_create(handle, their_name, inter, code)
  call okay('mpi_conn_intercomm_create')
  call mpi_conn_remove(handle, code)

  call MPI_Type_contiguous(2, MPI_INTEGER, parts(1), code)
  parts(2) = parts(1)
  lengths = 1
  call MPI_Type_hvector(2, 1, 20, parts(1), types(1), code)
  call okay('MPI_Type_hvector')
  places = [28, 8]
  call MPI_Type_hindexed(2, lengths, places, parts(1), types(2), code)
  call okay('MPI_Type_hindexed')
  places = [36, 16]
  call MPI_Type_struct(2, lengths, places, parts, types(3), code)
  call okay('MPI_Type_struct')
  places = [0, 48]
  call MPI_Type_struct(2, lengths, places, parts, types(4), code)
  call MPI_Type_free(parts(1), code)
  do t = 1, 4
    call MPI_Type_commit(types(t), code)
    call okay('MPI_Type_commit')
    order = wanted(:, t)
    if (side == '0') then
      cells = [(100 * t + i, i = 1, 32)]
      call MPI_Send(cells, 1, types(t), 0, t, inter, code)
      call okay('MPI_Send')
      call MPI_Send([(100 * t + 1 + order(i), i = 1, 4)], 4, MPI_INTEGER, 0, t, inter, code)
    else
      cells = -1
      call MPI_Recv(cells, 4, MPI_INTEGER, 0, t, inter, elements, code)
      call okay('MPI_Recv')
      do i = 1, 4
        call same(cells(i), 100 * t + 1 + order(i), 'what was packed')
      end do
      cells = -1
      call MPI_Recv(cells, 1, types(t), 0, t, inter, elements, code)
      call okay('MPI_Recv')
      do i = 1, 32
        call same(cells(i), merge(100 * t + i, -1, any(order == i - 1)), 'what was unpacked')
      end do
    end if
    call MPI_Type_free(types(t), code)
    call okay('MPI_Type_free')
  end do
  call MPI_Comm_free(inter, code)
  call finish(trim(my_name))

contains
#include "check.h"
end program old_types
