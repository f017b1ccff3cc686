// What calls the driver where programs are given no arguments (tests/native/boards.py).
int driver(int count, char** arguments);

int main(void) {
  char* arguments[] = {"driver", "-", "request", "answer", 0};
  return driver(4, arguments);
}
