! The ocean: is warmed by the heat from the air, and sends its temperature.
program ocean
    use mpi_f08
    use mpi_connect_f08
    implicit none
    integer, parameter :: cells = 100, steps = 10
    double precision :: heat(cells), temperature(cells)
    type(MPI_Comm) :: air
    integer :: rank, handle, step

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Conn_register('ocean', MPI_COMM_WORLD, handle)
    call MPI_Conn_intercomm_create(handle, 'air', air)
    call MPI_Conn_remove(handle)

    temperature = 10
    do step = 1, steps
        call MPI_Recv(heat, cells, MPI_DOUBLE_PRECISION, rank, 0, air, MPI_STATUS_IGNORE)
        temperature = temperature + 0.25 * heat
        call MPI_Send(temperature, cells, MPI_DOUBLE_PRECISION, rank, 0, air)
    end do
    print '(a,i0,a,f6.3,a)', 'ocean ', rank, ': ', temperature(1), ' degrees'
    call MPI_Comm_free(air)
    call MPI_Finalize()
end program
