"""What is shipped: wheel, sdist, package, image, and the workflows that release them."""
