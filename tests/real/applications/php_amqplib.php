<?php
// php-amqplib: a queue declared with its defaults, which is transient, not exclusive, and deleted with its last consumer.
//
//     php php_amqplib.php PORT

require 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$connection = new AMQPStreamConnection('127.0.0.1', (int) $argv[1], 'guest', 'guest');
$channel = $connection->channel();
$channel->queue_declare('php-amqplib');
$channel->basic_publish(new AMQPMessage('hello from php-amqplib'), '', 'php-amqplib');
$channel->basic_consume('php-amqplib', callback: function (AMQPMessage $message) use ($channel): void {
    $message->ack();
    $channel->basic_cancel($message->getConsumerTag());
    echo $message->getBody(), "\n";
});
while ($channel->is_consuming()) {
    $channel->wait(null, false, 30);
}
$connection->close();
