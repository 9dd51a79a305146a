! A convolutional network learns handwritten digits, and goes on from its checkpoint when it is started again.
!   ./digits [folder of the data] [epochs of this run]
program digits
    use taper
    implicit none
    character(len=256) :: folder = "examples/data", argument
    type(tp_dataset) :: training, testing
    type(tp_loader) :: loader, judges
    type(tp_module) :: net
    type(tp_optimiser) :: adam
    type(tp_schedule) :: schedule
    type(tp_tensor) :: loss
    type(tp_scope) :: scope
    integer :: epoch, first, epochs
    logical :: there

    epochs = 2
    if (command_argument_count() > 0) call get_command_argument(1, folder)
    if (command_argument_count() > 1) then
        call get_command_argument(2, argument)
        read (argument, *) epochs
    end if
    training = tp_dataset_mnist(trim(folder) // "/train-images.idx.gz", trim(folder) // "/train-labels.idx.gz")
    testing = tp_dataset_mnist(trim(folder) // "/test-images.idx.gz", trim(folder) // "/test-labels.idx.gz")
    call tp_check("reading the data")

    call tp_manual_seed(1)
    loader = tp_loader_new(training, batch=64, shuffle=.true.)
    judges = tp_loader_new(testing, batch=256)
    net = tp_nn_sequential([tp_nn_conv2d(1, 8, [3]), tp_nn_relu(), tp_nn_max_pool2d([2]), tp_nn_conv2d(8, 16, [3]), &
                            tp_nn_relu(), tp_nn_max_pool2d([2]), tp_nn_flatten(), tp_nn_dropout(0.1), tp_nn_linear(400, 10)])
    adam = tp_adam(net, lr=2d-3)
    schedule = tp_exponential_lr(adam, gamma=0.8d0)
    first = 0
    inquire (file="digits.pt", exist=there)
    if (there) call tp_training_load("digits.pt", net, adam, schedule, loader, epoch=first)
    call tp_check("going on from digits.pt")

    do epoch = first + 1, first + epochs
        call net%train()
        do while (loader%next())
            call scope%open()
            loss = tp_cross_entropy(net%forward(loader%field(0)), loader%field(1))
            call adam%zero_grad()
            call loss%backward()
            call adam%step()
            call scope%close()
        end do
        call schedule%step()
        print "(a, i0, a, f7.4, a, f5.1, a)", "epoch ", epoch, ": loss ", loss%item(), ", ", 100 * accuracy(), "% of the test"
        call tp_training_save("digits.pt", net, adam, schedule, loader, epoch) ! after the test, whose loader draws too
        call tp_check("an epoch")
    end do

contains

    function accuracy() result(share)
        real(c_double) :: share
        type(tp_tensor) :: right
        type(tp_no_grad) :: off
        call net%eval()
        call off%begin()
        share = 0
        do while (judges%next())
            call scope%open()
            right = tp_sum(tp_argmax(net%forward(judges%field(0)), dim=1) == judges%field(1))
            share = share + right%item() / testing%count()
            call scope%close()
        end do
    end function
end program digits
