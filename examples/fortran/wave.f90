! A simulation's array trains a network in place: each rank of an MPI job computes its own samples of a wave and fits one network to all of them.
!   gfortran taper.f90 wave.f90 -ltaper -o wave && mpirun -n 4 ./wave
! The samples are never copied: the network reads the program's own array. Prints the first and the last loss, and a checksum of the weights by rank.
program wave
    use taper
    implicit none
    integer, parameter :: rows = 256, steps = 200
    real(c_float), target :: x(2, rows), y(1, rows) ! features run fastest: tensors of shape (rows, 2) and (rows, 1)
    type(c_ptr) :: input, target_, net, optimiser, ddp, loss
    type(tp_state) :: parameters
    type(tp_sgd_options) :: options
    type(tp_scope) :: scope
    real(c_double) :: first, last
    integer :: rank, ranks, step, i

    call check(logical(tp_dist_init(c_null_ptr)), "joining the other ranks")
    rank = tp_group_rank(c_null_ptr)
    ranks = tp_group_size(c_null_ptr)

    input = taper_over(x)
    target_ = taper_over(y)
    call tp_manual_seed(7_c_int64_t)
    net = tp_nn_sequential_of(3_c_int64_t, [tp_nn_linear(2_c_int64_t, 32_c_int64_t, c_null_ptr), tp_nn_tanh(), &
                                            tp_nn_linear(32_c_int64_t, 1_c_int64_t, c_null_ptr)])
    ddp = tp_ddp_new(net, c_null_ptr)
    parameters = tp_module_parameters(net)
    options%lr = 0.05d0
    options%momentum = 0.9d0
    optimiser = tp_sgd(tp_list(parameters%tensors, parameters%n), options)
    call check(logical(tp_ok()), "making the network")

    do step = 1, steps
        do i = 1, rows ! the simulation's step: new samples, written where the network reads them
            x(1, i) = -1.0 + 2.0 * real(mod(i * 37 + step * 11 + rank * 101, rows)) / rows
            x(2, i) = -1.0 + 2.0 * real(mod(i * 53 + step * 29 + rank * 67, rows)) / rows
            y(1, i) = sin(2.0 * x(1, i)) * cos(x(2, i))
        end do
        scope = tp_scope_open()
        loss = tp_mse_loss(taper_forward(net, input), target_, c_null_ptr)
        call check(logical(tp_optimiser_zero_grad(optimiser)) .and. logical(tp_backward(loss, c_null_ptr)), "the backward")
        call check(logical(tp_ddp_finish(ddp)) .and. logical(tp_step(optimiser)), "the step")
        last = tp_item(loss)
        if (step == 1) first = last
        call tp_scope_close(scope)
    end do

    write (*, "(a, i0, a, i0, a, f8.5, a, f8.5, a, es22.15)") "rank ", rank, " of ", ranks, ": loss ", first, " to ", last, &
        ", weights ", checksum()
    call tp_ddp_free(ddp)
    call tp_optimiser_free(optimiser)
    call tp_state_free(parameters)
    call tp_module_release(net)
    call tp_release(input)
    call tp_release(target_)
    call tp_dist_end()

contains

    subroutine check(ok, what)
        logical, intent(in) :: ok
        character(len=*), intent(in) :: what
        if (ok .and. tp_ok()) return
        write (0, *) what, ": ", taper_message()
        error stop 1
    end subroutine

    function checksum() result(total)
        type(c_ptr), pointer :: tensors(:)
        real(c_float), pointer :: values(:)
        real(c_double) :: total
        integer :: k
        call c_f_pointer(parameters%tensors, tensors, [parameters%n])
        total = 0
        do k = 1, int(parameters%n)
            call c_f_pointer(tp_data(tensors(k)), values, [tp_numel(tensors(k))])
            total = total + sum(abs(real(values, c_double)))
        end do
    end function
end program wave
