"""Finding annotated objects again in edited images, and comparing images with their sources, from pixels only."""
