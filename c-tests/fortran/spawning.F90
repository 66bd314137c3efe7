! `spawning MANIFEST`: starts the jobs of a manifest by MPI_Comm_spawn, with Fortran's own words for what is left out, and is told of
! a name by MPI_Conn_notify. The children are spawning.c.
program spawning
#define CONNECT
#include "way.h"
  HANDLE(MPI_Comm) :: inter
  HANDLE(MPI_Info) :: info, infos(2)
  integer :: codes(3), notice, handle, most(2), begun, now, rate
  character(len=400) :: manifest
  character(len=12) :: argv(4), commands(2), argvs(2, 3)
  integer, volatile :: seen
  common /told/ seen
  external :: is_told

  call MPI_Init(code)
  call get_command_argument(1, manifest)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, code)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, code)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, code)
  call MPI_Comm_size(MPI_COMM_WORLD, mine, code)
  call MPI_Comm_get_parent(inter, code)
  call okay('MPI_Comm_get_parent')
  call check(inter == MPI_COMM_NULL, 'there is no parent')

  argv = ' '
  argv(1) = 'child'
  argv(2) = 'plain'
  codes = -7
  call named('child')
  call MPI_Comm_spawn(' ', argv, 2, info, 0, MPI_COMM_WORLD, inter, codes, code)
  call okay('MPI_Comm_spawn')
  call same(codes(1), MPI_SUCCESS, 'the first code')
  call same(codes(2), MPI_SUCCESS, 'the second code')
  call same(codes(3), -7, 'what is behind')
  call hear(2)

  ! The manifest has the arguments.
  call MPI_Info_free(info, code)
  call named('plain')
  call MPI_Comm_spawn(' ', MPI_ARGV_NULL, 1, info, mine - 1, MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE, code)
  call okay('MPI_Comm_spawn without')
  call hear(1)

  commands = ' '
  most = 1
  infos = info
  call MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, most, infos, 0, MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE, code)
  call okay('MPI_Comm_spawn_multiple without')
  call hear(2)
  argvs = ' '
  argvs(:, 1) = 'child'
  argvs(:, 2) = 'plain'
  call MPI_Info_free(info, code)
  call named('child')
  infos = info
  codes = -7
  call MPI_Comm_spawn_multiple(2, commands, argvs, most, infos, 0, MPI_COMM_WORLD, inter, codes, code)
  call okay('MPI_Comm_spawn_multiple')
  call same(codes(2), MPI_SUCCESS, 'the second code of several')
  call hear(2)

  call MPI_Comm_spawn('./no-such', MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, inter, codes, code)
  call refused(MPI_ERR_SPAWN, 'no such program')
  call same(codes(1), MPI_ERR_SPAWN, 'the code of no such program')
  call MPI_Info_free(info, code)

  seen = 0
  call mpi_conn_register('fortran', MPI_COMM_WORLD, handle, code)
  call okay('mpi_conn_register')
  call mpi_conn_notify('fort*  ', MPI_CONN_JOINED + MPI_CONN_DIED, is_told, notice, code)
  call okay('mpi_conn_notify')
  call system_clock(begun, rate)
  do while (seen == 0)
    call system_clock(now)
    if (now - begun > 30 * rate) exit
  end do
  call same(seen, MPI_CONN_JOINED, 'what was told')
  call mpi_conn_notify_cancel(notice, code)
  call okay('mpi_conn_notify_cancel')
  call mpi_conn_notify_cancel(notice, code)
  call refused(MPI_ERR_ARG, 'cancelled twice')
  call MPI_Barrier(MPI_COMM_WORLD, code)
  call mpi_conn_remove(handle, code)
  call finish('spawning')

contains
#include "check.h"

  subroutine named(job)
    character(len=*), intent(in) :: job
    call MPI_Info_create(info, code)
    call MPI_Info_set(info, 'mpi_connect_manifest', trim(manifest), code)
    call MPI_Info_set(info, 'mpi_connect_job', job, code)
    call okay('MPI_Info_set')
  end subroutine named

  ! Each child says its rank to the first parent.
  subroutine hear(children)
    integer, intent(in) :: children
    integer :: there, k, said
    call MPI_Comm_remote_size(inter, there, code)
    call same(there, children, 'the children')
    if (me == 0) then
      do k = 0, there - 1
        call MPI_Recv(said, 1, MPI_INTEGER, k, 6, inter, MPI_STATUS_IGNORE, code)
        call okay('MPI_Recv')
        call same(said, k, 'what a child says')
      end do
    end if
    call MPI_Comm_disconnect(inter, code)
    call okay('MPI_Comm_disconnect')
  end subroutine hear
end program spawning

subroutine is_told(event, name)
  integer, intent(in) :: event
  character(len=*), intent(in) :: name
  integer, volatile :: seen
  common /told/ seen
  if (name == 'fortran' .and. len(name) == 7) then
    seen = event
  else
    seen = -1
  end if
end subroutine is_told
