// Sends images to the node of examples/ros until it has answered, a wrong one first, and prints the answer.
#include <ros/ros.h>
#include <std_msgs/Float32MultiArray.h>

#include <cstdio>

int main(int argc, char** argv) {
  ros::init(argc, argv, "client");
  ros::NodeHandle node;
  bool answered = false;
  using Message = std_msgs::Float32MultiArray::ConstPtr;
  ros::Publisher images = node.advertise<std_msgs::Float32MultiArray>("image", 8);
  const auto logits = node.subscribe<std_msgs::Float32MultiArray>("logits", 8, [&](const Message& message) {
    if (answered) return;
    answered = true;
    std::printf("\nlogits:");
    for (const float score : message->data) std::printf(" %.6f", double(score));
    std::printf("\n");
  });
  std_msgs::Float32MultiArray image, wrong;
  image.data.assign(64, 0.5f);
  wrong.data.assign(63, 0.5f);
  for (ros::WallRate rate(10); ros::ok() && !answered; rate.sleep()) {
    if (images.getNumSubscribers() && logits.getNumPublishers()) images.publish(wrong), images.publish(image);
    ros::spinOnce();
  }
  return 0;
}
