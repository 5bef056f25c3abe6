"""How long does learning metrics take on a GPU?"""

from bench_uncertainty_speed import write_page

if __name__ == "__main__":
    write_page("cuda")
