! The ocean: is warmed by the heat from the air, and sends its temperature.
program ocean
    use mpi
    use mpi_connect
    implicit none
    integer, parameter :: cells = 100, steps = 10
    double precision :: heat(cells), temperature(cells)
    integer :: air
    integer :: rank, handle, step, ierror

    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Conn_register('ocean', MPI_COMM_WORLD, handle, ierror)
    call MPI_Conn_intercomm_create(handle, 'air', air, ierror)
    call MPI_Conn_remove(handle, ierror)

    temperature = 10
    do step = 1, steps
        call MPI_Recv(heat, cells, MPI_DOUBLE_PRECISION, rank, 0, air, MPI_STATUS_IGNORE, ierror)
        temperature = temperature + 0.25 * heat
        call MPI_Send(temperature, cells, MPI_DOUBLE_PRECISION, rank, 0, air, ierror)
    end do
    print '(a,i0,a,f6.3,a)', 'ocean ', rank, ': ', temperature(1), ' degrees'
    call MPI_Comm_free(air, ierror)
    call MPI_Finalize(ierror)
end program
