! The air: sends the heat at its surface to the ocean, and gets the ocean's temperature.
program air
    use mpi_f08
    use mpi_connect_f08
    implicit none
    integer, parameter :: cells = 100, steps = 10
    double precision :: heat(cells), temperature(cells)
    type(MPI_Comm) :: ocean
    integer :: rank, handle, step

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Conn_register('air', MPI_COMM_WORLD, handle)      ! our name
    call MPI_Conn_intercomm_create(handle, 'ocean', ocean)     ! waits for the other job
    call MPI_Conn_remove(handle)                               ! the name is free again; ocean stays

    temperature = 10
    do step = 1, steps
        heat = 20 - temperature
        call MPI_Sendrecv(heat, cells, MPI_DOUBLE_PRECISION, rank, 0, &
            temperature, cells, MPI_DOUBLE_PRECISION, rank, 0, ocean, MPI_STATUS_IGNORE)
    end do
    print '(a,i0,a,f6.3,a)', 'air ', rank, ': the ocean has ', temperature(1), ' degrees'
    call MPI_Comm_free(ocean)
    call MPI_Finalize()
end program
