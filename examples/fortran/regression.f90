! Linear regression: a polynomial of degree four is found again from its values.
!   gfortran -c $PREFIX/include/taper/taper.f90 && gfortran regression.f90 taper.o -L$PREFIX/lib -ltaper -o regression
program regression
    use taper
    implicit none
    integer, parameter :: degree = 4, rows = 32
    real(c_float), target :: x(degree, rows), y(1, rows) ! the first dimension runs fastest: tensors (rows, degree), (rows, 1)
    real(c_float) :: weights(degree, 1), truth(degree) = [0.5, -1.0, 2.0, 0.25]
    type(tp_tensor) :: input, wanted, loss, bias
    type(tp_module) :: net
    type(tp_optimiser) :: sgd
    type(tp_scope) :: scope
    integer :: i, step

    call tp_manual_seed(1)
    net = tp_nn_linear(degree, 1)
    sgd = tp_sgd(net, lr=0.1d0, momentum=0.9d0)
    input = tp_over(x) ! no copy: the tensors see what the program writes into its arrays
    wanted = tp_over(y)
    do step = 1, 2000
        do i = 1, rows
            x(:, i) = (2 * real(mod(i * 37 + step * 11, 97)) / 97 - 1)**[1, 2, 3, 4]
            y(1, i) = dot_product(truth, x(:, i)) + 3
        end do
        call scope%open() ! what the step computes is released when the scope closes
        loss = tp_smooth_l1_loss(net%forward(input), wanted)
        call sgd%zero_grad()
        call loss%backward()
        call sgd%step()
        call scope%close()
        if (loss%item() < 1d-7) exit
    end do
    call tp_check("training")

    call tp_copy_to(net%tensor("weight"), weights)
    bias = net%tensor("bias")
    print "(a, i0, a, es8.1)", "steps: ", min(step, 2000), ", loss ", loss%item()
    print "(a, 4f7.3)", "true weights:    ", truth
    print "(a, 4f7.3)", "learned weights: ", weights
    print "(a, f7.3)", "learned bias:    ", bias%item()
    if (maxval(abs(weights(:, 1) - truth)) > 0.05) error stop "the weights were not found"
end program regression
