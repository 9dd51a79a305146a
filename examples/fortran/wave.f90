! Data parallel: each rank of an MPI job computes its own samples of a wave, and all of them fit one network.
!   gfortran -c taper.f90 && gfortran wave.f90 taper.o -ltaper -o wave && mpirun -n 4 ./wave
! The samples are never copied: the network reads the program's own array. Prints the first and the last loss, and a checksum of the weights by rank.
program wave
    use taper
    implicit none
    integer, parameter :: rows = 256, steps = 200
    real(c_float), target :: x(2, rows), y(1, rows) ! features run fastest: tensors of shape (rows, 2) and (rows, 1)
    type(tp_tensor) :: input, wanted, loss
    type(tp_module) :: net
    type(tp_ddp) :: ddp
    type(tp_optimiser) :: sgd
    type(tp_scope) :: scope
    real(c_double) :: first, last
    integer :: rank, step, i

    call tp_dist_init()
    call tp_check("joining the other ranks")
    rank = tp_rank()
    input = tp_over(x)
    wanted = tp_over(y)
    call tp_manual_seed(7)
    net = tp_nn_sequential([tp_nn_linear(2, 32), tp_nn_tanh(), tp_nn_linear(32, 1)])
    ddp = tp_ddp_new(net)
    sgd = tp_sgd(net, lr=0.05d0, momentum=0.9d0)
    call tp_check("making the network")

    do step = 1, steps
        do i = 1, rows ! the simulation's step: new samples, written where the network reads them
            x(1, i) = -1.0 + 2.0 * real(mod(i * 37 + step * 11 + rank * 101, rows)) / rows
            x(2, i) = -1.0 + 2.0 * real(mod(i * 53 + step * 29 + rank * 67, rows)) / rows
            y(1, i) = sin(2.0 * x(1, i)) * cos(x(2, i))
        end do
        call scope%open()
        loss = tp_mse_loss(net%forward(input), wanted)
        call sgd%zero_grad()
        call loss%backward()
        call ddp%finish() ! the gradients are averages over all ranks now
        call sgd%step()
        last = loss%item()
        if (step == 1) first = last
        call scope%close()
        call tp_check("a step")
    end do

    write (*, "(a, i0, a, i0, a, f8.5, a, f8.5, a, es22.15)") "rank ", rank, " of ", tp_ranks(), ": loss ", first, " to ", last, &
        ", weights ", checksum()
    call ddp%release()
    call tp_dist_end()

contains

    function checksum() result(total)
        type(tp_tensor), allocatable :: weights(:)
        type(tp_tensor) :: squares
        real(c_double) :: total
        integer :: i
        call net%parameters(weights)
        total = 0
        do i = 1, size(weights)
            squares = tp_sum(weights(i)**2)
            total = total + squares%item()
        end do
    end function
end program wave
